// SPDX-License-Identifier: MIT
#include "ops/evaluation.h"
#include "ops/support/matmul.h"

namespace lathe {
namespace {

constexpr TypeSet kBytes = types(ElementType::i8, ElementType::u8);

// Zero points: one for all, or one per row of a (column of b), optionally per batch.
class ZeroPoints {
 public:
  ZeroPoints(const Evaluation& c, int operand, int64_t extent, int64_t batch, std::string_view of)
      : values_(c.has(operand) ? c.values(operand) : std::vector<int64_t>{0}), extent_(extent) {
    const auto size = static_cast<int64_t>(values_.size());
    c.check(size == 1 || size == extent || size == extent * batch,
            "{} has {} zero points, expected 1 or {}", of, size, extent);
  }
  uint32_t at(int64_t batch, int64_t i) const {
    const auto size = static_cast<int64_t>(values_.size());
    const int64_t index = size == 1 ? 0 : size == extent_ ? i : batch * extent_ + i;
    return static_cast<uint32_t>(values_[static_cast<size_t>(index)]);
  }

 private:
  std::vector<int64_t> values_;
  int64_t extent_;
};

class IntegerGemm final : public BlockedGemm<uint32_t> {
 public:
  IntegerGemm(const MatmulShape& shape, const ZeroPoints& a, const ZeroPoints& b)
      : shape_(shape), a_zero_(a), b_zero_(b) {
    batch = shape.batch;
    m = shape.m;
    n = shape.n;
    k = shape.k;
  }
  void load_a(int64_t at, const Block& block, uint32_t* to, int64_t pitch) const override {
    load_block(shape_.a(at), block, to, pitch);
    for (int64_t r = 0; r < block.rows; ++r) {
      const uint32_t zero = a_zero_.at(at, block.row + r);
      for (int64_t c = 0; c < block.columns; ++c) to[r * pitch + c] -= zero;
    }
  }
  void load_b(int64_t at, const Block& block, uint32_t* to, int64_t pitch) const override {
    load_block(shape_.b(at), block, to, pitch);
    for (int64_t c = 0; c < block.columns; ++c) {
      const uint32_t zero = b_zero_.at(at, block.column + c);
      for (int64_t r = 0; zero != 0 && r < block.rows; ++r) to[r * pitch + c] -= zero;
    }
  }
  void store(int64_t at, const Block& block, const uint32_t* from, int64_t pitch) const override {
    store_block(shape_.y(at), block, from, pitch);
  }

 private:
  const MatmulShape& shape_;
  const ZeroPoints& a_zero_;
  const ZeroPoints& b_zero_;
};

}  // namespace

static const Register matmul_integer{{
    .name = "matmul_integer",
    .doc = "Matrix multiplication of 8-bit integers minus their zero points, accumulated in i32.",
    .operands = {{"a", kBytes},
                 {"b", kBytes},
                 {"a_zero_point", kBytes, Arity::optional},
                 {"b_zero_point", kBytes, Arity::optional}},
    .infer = [](Infer& c) { c.result(ElementType::i32, matmul_dims(c, 0, 1)); },
    .eval =
        [](Evaluation& c) {
          const MatmulShape shape(c.in(0), c.in(1), c.out());
          const ZeroPoints a(c, 2, shape.m, shape.batch, "a");
          const ZeroPoints b(c, 3, shape.n, shape.batch, "b");
          IntegerGemm(shape, a, b).run(c.pool);
        },
}};

}  // namespace lathe
