// SPDX-License-Identifier: MIT
// Shapes that exported models compute from shapes stay exact dims.
#include <gtest/gtest.h>

#include "ir/builder.h"

namespace lathe {
namespace {

class SymbolicValues : public testing::Test {
 protected:
  Dim symbol(const std::string& name, Range range = {1, 4096}) {
    return program_.add_symbol(name, SymbolKind::bound, range);
  }
  Value* input(std::vector<Dim> dims, ElementType type = ElementType::f32) {
    return program_.main().add_parameter(Type::tensor(type, std::move(dims)), "x");
  }
  Value* extent(Value* x, int64_t axis) {  // as in exported models
    return b_("gather", {b_("shape", {x}), b_.literal(scalar(axis))}, {{"axis", int64_t{0}}});
  }
  Value* vector(Value* scalar) { return b_("unsqueeze", {scalar, b_.integers({0})}); }
  static Tensor scalar(int64_t value) {
    Tensor tensor(ElementType::i64, {});
    *tensor.as<int64_t>() = value;
    return tensor;
  }
  static std::string type_of(const Value* value) { return value->type().to_string(); }
  bool has_found_symbols() const {
    for (const auto& instruction : program_.main().instructions()) {
      if (!instruction->found().empty()) return true;
    }
    return false;
  }

  Program program_;
  Builder b_{program_.main()};
};

TEST_F(SymbolicValues, HeadsAreSplitAndMergedByComputedShapes) {
  Value* x = input({symbol("batch"), symbol("seq"), 768});
  Value* shape = b_(
      "concat", {vector(extent(x, 0)), vector(extent(x, 1)), b_.integers({12}), b_.integers({-1})},
      {{"axis", int64_t{0}}});
  Value* heads = b_("reshape", {x, shape});
  EXPECT_EQ(type_of(heads), "f32[batch, seq, 12, 64]");
  Value* turned = b_.transpose(heads, {0, 2, 1, 3});
  Value* back = b_("reshape", {b_.transpose(turned, {0, 2, 1, 3}), b_.integers({0, 0, -1})});
  EXPECT_EQ(type_of(back), "f32[batch, seq, 768]");
  EXPECT_TRUE(program_.main().guards().empty());
  EXPECT_FALSE(has_found_symbols());
}

TEST_F(SymbolicValues, PositionsRunFromThePastToTheTotal) {
  Value* past = input({symbol("batch"), 8, symbol("past", {0, 4096}), 64});
  Value* tokens = input({symbol("batch_2"), symbol("seq")}, ElementType::i64);
  Value* begin = extent(past, 2);
  Value* both = b_("concat", {vector(begin), vector(extent(tokens, 1))}, {{"axis", int64_t{0}}});
  Value* total = b_("reduce_sum", {both}, {{"keep_dims", false}});
  Value* positions = b_("range", {begin, total, b_.literal(scalar(1))});
  EXPECT_EQ(type_of(positions), "i64[seq]");
  EXPECT_EQ(type_of(b_("range", {b_.literal(scalar(0)), total, b_.literal(scalar(1))})),
            "i64[past + seq]");
  EXPECT_FALSE(has_found_symbols());
}

TEST_F(SymbolicValues, MasksAreSlicedAtComputedPositions) {
  const Dim past = symbol("past", {0, 1024});
  const Dim seq = symbol("seq", {1, 1024});
  Value* mask = input({1, 1, 2048, 2048});
  Value* x = input({past, past + seq});
  Value* begin = vector(extent(x, 0));
  Value* end = vector(extent(x, 1));
  Value* rows = b_("slice", {mask, begin, end, b_.integers({2})});
  Value* cut = b_("slice", {rows, b_.integers({0}), end, b_.integers({3})});
  EXPECT_EQ(type_of(cut), "f32[1, 1, seq, past + seq]");
  Value* last = b_("slice", {x, b_.integers({-1}), b_.integers({INT64_MAX}), b_.integers({1})});
  EXPECT_EQ(type_of(last), "f32[past, 1]");
  EXPECT_FALSE(has_found_symbols());
}

TEST_F(SymbolicValues, ShapesAreSlicedTiledAndMultiplied) {
  Value* x = input({symbol("n"), 3, symbol("h"), symbol("w")});
  Value* shape = b_("shape", {x});
  Value* head = b_("slice", {shape, b_.integers({0}), b_.integers({2}), b_.integers({0})});
  Value* area = b_("reduce_prod", {b_("slice", {shape, b_.integers({2}), b_.integers({4})})});
  Value* flat = b_("reshape", {x, b_("concat", {head, area}, {{"axis", int64_t{0}}})});
  EXPECT_EQ(type_of(flat), "f32[n, 3, h*w]");
  Value* reversed = b_("slice", {shape, b_.integers({-1}), b_.integers({INT64_MIN}),
                                 b_.integers({0}), b_.integers({-1})});
  EXPECT_EQ(type_of(b_("constant_of_shape", {reversed})), "f32[w, h, 3, n]");
  Value* grown = b_("tile", {b_("reshape", {x, b_.integers({-1})}), vector(extent(x, 0))});
  EXPECT_EQ(type_of(grown), "f32[3*h*n*n*w]");
  Value* wide = b_("expand", {b_.scalar(ElementType::f32, 1), b_("identity", {shape})});
  EXPECT_EQ(type_of(wide), "f32[n, 3, h, w]");
  EXPECT_FALSE(has_found_symbols());
}

TEST_F(SymbolicValues, SizesOfEmptyTensorsAreKeptWhereComputedOnesAreZero) {
  Value* x = input({symbol("n", {0, 8}), 0, symbol("r", {0, 8}), symbol("one_or_more")});
  Value* turned = b_.transpose(x, {2, 1, 0, 3});
  EXPECT_EQ(type_of(b_("reshape", {turned, b_("shape", {x})})),
            "f32[-r*min(1, n) + n + r, 0, -n*min(1, r) + n + r, one_or_more]");
  EXPECT_EQ(type_of(b_("reshape", {turned, b_("shape", {x})}, {{"allow_zero", true}})),
            "f32[n, 0, r, one_or_more]");
}

TEST_F(SymbolicValues, UnknownValuesBecomeSymbolsAndTotalsStayExact) {
  Value* x = input({symbol("n"), 4});
  Value* shape = input({1}, ElementType::i64);
  EXPECT_EQ(type_of(b_("reshape", {x, shape})), "f32[4*n]");
  EXPECT_FALSE(has_found_symbols());
  Value* pair = input({2}, ElementType::i64);
  EXPECT_EQ(b_("reshape", {x, pair})->type().rank(), 2);
  EXPECT_TRUE(has_found_symbols());
  EXPECT_EQ(type_of(b_("reshape", {x, input({symbol("k")}, ElementType::i64)})), "f32[*]");
}

}  // namespace
}  // namespace lathe
