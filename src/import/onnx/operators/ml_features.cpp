// SPDX-License-Identifier: MIT
// Operators of ai.onnx.ml that prepare features.
#include <cmath>
#include <numeric>

#include "import/onnx/operators/ml.h"

namespace lathe::onnx {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 24;

// Checks a list with one number per feature, or one for all.
void check_per_feature(const NodeImport& c, std::string_view name, size_t count) {
  const std::optional<int64_t> features = ml_features(c);
  c.check(count == 1 || !features || static_cast<int64_t>(count) == *features,
          "{} has {} elements, expected 1 or {}", name, count, *features);
}

}  // namespace

void import_array_feature_extractor(NodeImport& c) {
  Value* x = c.rank(0) == 1 ? c.b("unsqueeze", {c.in(0), c.b.integers({0})}) : c.in(0);
  Value* indices = c.b("reshape", {c.in(1), c.b.integers({-1})});
  c.out(0, c.b("gather", {x, indices}, {{"axis", int64_t{-1}}}));
}

void import_binarizer(NodeImport& c) {
  const ElementType type = c.element(0);
  const ElementType compared = type == ElementType::f32 ? type : ElementType::f64;
  Value* bound = c.b.scalar(compared, c.number("threshold", 0.0));
  c.out(0, c.b.cast(c.b("greater", {c.b.cast(c.in(0), compared), bound}), type));
}

// Each input cut or padded with zeros to its number of columns.
void import_feature_vectorizer(NodeImport& c) {
  const Integers sizes = c.integers("inputdimensions");
  c.check(static_cast<int>(sizes.size()) == c.count() && c.count() > 0,
          "inputdimensions has {} elements, the node {} inputs", sizes.size(), c.count());
  std::vector<Value*> parts;
  int64_t total = 0;
  for (int i = 0; i < c.count(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    c.check(size >= 0 && size <= kMostColumns - total,
            "inputdimensions has {} after {} columns, expected at most {} in all", size, total,
            kMostColumns);
    total += size;
    c.check(c.rank(i) >= 1, "input {} has rank {}, expected at least 1", i, c.rank(i));
    Value* x = c.b.cast(c.in(i), ElementType::f32);
    if (c.rank(i) == 1) x = c.b("unsqueeze", {x, c.b.integers({0})});
    if (c.rank(i) > 2) x = c.b("reshape", {x, c.b.integers({0, -1})});
    if (x->type().dims->back() != Dim(size)) {
      x = c.b("pad", {x, c.b.integers({0, 0, 0, size})});
      x = c.b("slice", {x, c.b.integers({0}), c.b.integers({size}), c.b.integers({1})});
    }
    parts.push_back(x);
  }
  c.out(0, c.b("concat", parts, {{"axis", int64_t{1}}}));
}

void import_imputer(NodeImport& c) {
  const ElementType type = c.element(0);
  c.check(c.rank(0) >= 1, "input 0 has rank {}, expected at least 1", c.rank(0));
  const Numbers numbers = c.numbers("imputed_value_floats", Numbers{});
  const Integers integers = c.integers("imputed_value_int64s", Integers{});
  const double number = c.number("replaced_value_float", 0.0);
  const int64_t integer = c.integer("replaced_value_int64", 0);
  const bool uses_floats = is_floating(type);
  const size_t count = uses_floats ? numbers.size() : integers.size();
  c.check(count > 0, "imputed_value_{} has {} elements, x is {}", uses_floats ? "floats" : "int64s",
          count, to_string(type));
  check_per_feature(c, "imputed_value", count);
  if (uses_floats) {
    Value* found = std::isnan(number) ? c.b("is_nan", {c.in(0)})
                                      : c.b("equal", {c.in(0), c.b.scalar(type, number)});
    Value* imputed =
        ml_numbers(c, "imputed_value_floats", numbers, {static_cast<int64_t>(count)}, type);
    return c.out(0, c.b("where", {found, imputed, c.in(0)}));
  }
  Value* replaced = c.b.cast(c.b.integers({integer}), type);
  Value* imputed = c.b.cast(c.b.integers(integers), type);
  c.out(0, c.b("where", {c.b("equal", {c.in(0), replaced}), imputed, c.in(0)}));
}

// Divided by the row's maximum, sum of magnitudes or length, unless that is zero.
void import_normalizer(NodeImport& c) {
  const std::string_view norm = c.text("norm", "MAX");
  c.check(norm == "MAX" || norm == "L1" || norm == "L2", "norm is '{}', expected MAX, L1 or L2",
          escape(norm));
  c.check(c.rank(0) == 1 || c.rank(0) == 2, "input 0 has rank {}, expected 1 or 2", c.rank(0));
  Value* x = c.b.cast(c.in(0), ElementType::f32);
  const std::string_view reduction = norm == "MAX"  ? "reduce_max"
                                     : norm == "L1" ? "reduce_l1"
                                                    : "reduce_l2";
  Value* divisor = c.b(reduction, {x, c.b.integers({-1})});
  Value* is_zero = c.b("equal", {divisor, c.b.scalar(ElementType::f32, 0)});
  c.out(0, c.b("where", {is_zero, x, c.b("div", {x, divisor})}));
}

void import_one_hot_encoder(NodeImport& c) {
  const Integers integers = c.integers("cats_int64s", Integers{});
  const Texts texts = c.texts("cats_strings", Texts{});
  const bool is_text = c.element(0) == ElementType::string;
  const size_t count = is_text ? texts.size() : integers.size();
  c.check(count > 0, "cats_{} has {} categories, x is {}", is_text ? "strings" : "int64s", count,
          to_string(c.element(0)));
  Integers places(count);
  std::iota(places.begin(), places.end(), int64_t{0});
  Value* x = is_text ? c.in(0) : c.b.cast(c.in(0), ElementType::i64);
  Value* keys = is_text ? ml_texts(c, texts) : c.b.integers(integers);
  Value* depth = c.b.scalar(ElementType::i64, static_cast<double>(count));
  // An index equal to the depth sets no element.
  Value* missing = c.integer("zeros", 1) != 0 ? depth : nullptr;
  Value* indices = c.b("lookup", {x, keys, c.b.integers(places), missing});
  Value* values = ml_numbers(c, "values", {0, 1}, {2});
  c.out(0, c.b("one_hot", {indices, depth, values}, {{"axis", int64_t{-1}}}));
}

// (x - offset) * scale
void import_scaler(NodeImport& c) {
  const ElementType type = ml_float_type(c);
  c.check(c.rank(0) >= 1, "input 0 has rank {}, expected at least 1", c.rank(0));
  const Numbers offset = c.numbers("offset", Numbers{0});
  const Numbers scale = c.numbers("scale", Numbers{1});
  const auto per_feature = [&](std::string_view name, const Numbers& values) {
    check_per_feature(c, name, values.size());
    return ml_numbers(c, name, values, {static_cast<int64_t>(values.size())}, type);
  };
  Value* shifted = c.b("sub", {c.b.cast(c.in(0), type), per_feature("offset", offset)});
  Value* scaled = c.b("mul", {shifted, per_feature("scale", scale)});
  c.out(0, c.b.cast(scaled, ElementType::f32));
}

}  // namespace lathe::onnx
