// SPDX-License-Identifier: MIT
// Imports operators of com.microsoft with weights in small types.
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

constexpr std::array<float, 16> kE2m1 = {0,    0.5f,  1,  1.5f,  2,  3,  4,  6,
                                         -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
// The values of bitsandbytes' FP4 and NF4 codes.
constexpr std::array<float, 16> kBnbFp4 = {
    0,    0.005208333333f,  0.66666667f,  1,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.f, -0.005208333333f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr std::array<float, 16> kBnbNf4 = {
    -1.0f,           -0.69619280099f, -0.52507305145f, -0.39491748809f,
    -0.28444138169f, -0.18477343023f, -0.09105003625f, 0.0f,
    0.07958029955f,  0.16093020141f,  0.24611230194f,  0.33791524171f,
    0.44070982933f,  0.56261700391f,  0.72295683622f,  1.0f};

// The values of codes of 4 bits, two per byte of `packed`, as a vector.
Value* values_of(NodeImport& c, Value* packed, const std::array<float, 16>& values,
                 bool low_first) {
  Builder& b = c.b;
  Tensor table(ElementType::f32, {16});
  std::copy(values.begin(), values.end(), table.as<float>());
  Value* column = b("reshape", {packed, b.integers({-1, 1})});
  Value* low = b("bitwise_and", {column, b.scalar(ElementType::u8, 15)});
  Value* high =
      b("bit_shift", {column, b.scalar(ElementType::u8, 4)}, {{"direction", std::string("RIGHT")}});
  Value* pairs =
      b("concat", {low_first ? low : high, low_first ? high : low}, {{"axis", int64_t{1}}});
  Value* codes = b.cast(b("reshape", {pairs, b.integers({-1})}), ElementType::i64);
  return b("gather", {b.literal(table), codes});
}

// The scales [n, blocks] of each of `count` columns, [n, count].
Value* spread(NodeImport& c, Value* scales, int64_t count, int64_t block) {
  Integers columns(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) columns[static_cast<size_t>(i)] = i / block;
  return c.b("gather", {scales, c.b.integers(columns)}, {{"axis", int64_t{1}}});
}

int64_t positive(NodeImport& c, std::string_view name, std::optional<int64_t> fallback = {}) {
  const int64_t value = c.integer(name, fallback);
  c.check(value > 0, "{} is {}, expected at least 1", name, value);
  return value;
}

// Columns of the weights, input 1.
int64_t columns_of(NodeImport& c) {
  c.check(c.rank(1) == 2, "input 1 has rank {}, expected 2", c.rank(1));
  const Dim& columns = c.in(1)->type().dims->back();
  c.supported(columns.is_constant(), "input 1 is {}, its shape must be known here",
              c.in(1)->type().to_string());
  c.supported(*columns.constant() <= 1 << 24, "input 1 is {}, at most 2^24 columns are supported",
              c.in(1)->type().to_string());
  return *columns.constant();
}

// a · weightsᵀ + bias? in the type of a.
Value* times_weights(NodeImport& c, Value* a, Value* weights, Value* bias) {
  const ElementType type = a->type().element;
  Value* y = c.b("matmul", {a, c.b.transpose(c.b.cast(weights, type), {1, 0})});
  return bias == nullptr ? y : c.b("add", {y, bias});
}

}  // namespace

// Inputs a, codes, scale per block. The codes are those of [n, k], the first in the high bits.
void import_matmul_bnb4(NodeImport& c) {
  Builder& b = c.b;
  const int64_t k = positive(c, "K");
  const int64_t n = positive(c, "N");
  const int64_t block = positive(c, "block_size");
  c.check(block <= 1 << 20, "block_size is {}, expected at most 2^20", block);
  const int64_t type = c.integer("quant_type");
  c.check(type == 0 || type == 1, "quant_type is {}, expected 0 (FP4) or 1 (NF4)", type);
  c.ignore({"training_mode"});
  c.check(k <= (int64_t{1} << 40) / n, "the weights have {} by {} elements", n, k);
  const int64_t count = n * k;
  const int64_t blocks = (count + block - 1) / block;
  Value* values = values_of(c, c.in(1), type == 0 ? kBnbFp4 : kBnbNf4, false);
  const auto resized = [&](int64_t from, int64_t to) {
    if (from < to) return b("pad", {values, b.integers({0, to - from})});
    if (from == to) return values;
    return b("slice", {values, b.integers({0}), b.integers({to})});
  };
  values = resized(count + count % 2, blocks * block);
  Value* scales = b("reshape", {b.cast(c.in(2), ElementType::f32), b.integers({-1, 1})});
  values = b("mul", {b("reshape", {values, b.integers({-1, block})}), scales});
  values = b("reshape", {values, b.integers({-1})});
  values = b("reshape", {resized(blocks * block, count), b.integers({n, k})});
  if (c.integer("transB", 1) == 0) values = b.transpose(values, {1, 0});
  c.out(0, times_weights(c, c.in(0), values, nullptr));
}

// Inputs a, codes [n, k / 2], scale per block (bits of f8e4m3fn), scale, input scale?, bias?.
void import_matmul_block_quantized_fp4_weight(NodeImport& c) {
  Builder& b = c.b;
  const int64_t k = 2 * columns_of(c);
  Value* scales = c.in(2);
  if (c.element(2) == ElementType::u8) {
    scales = b("bit_cast", {scales}, {{"to", ElementType::f8e4m3fn}});
  }
  scales = b("mul", {b.cast(scales, ElementType::f32), c.in(3)});
  Value* values = b("reshape", {values_of(c, c.in(1), kE2m1, true), b.integers({-1, k})});
  values = b("mul", {values, spread(c, scales, k, positive(c, "block_size", 16))});
  c.out(0, times_weights(c, c.in(0), values, c.in_or_null(5)));
}

// Inputs a, weights [n, k], scale per block, scale of a?, bias?. With its scale, a is rounded to
// f8e4m3fn.
void import_matmul_block_quantized_fp8_weight(NodeImport& c) {
  Builder& b = c.b;
  const int64_t k = columns_of(c);
  Value* scales = spread(c, c.in(2), k, positive(c, "block_size", 128));
  Value* weights = b("mul", {b.cast(c.in(1), ElementType::f32), scales});
  Value* a = c.in(0);
  if (c.has(3)) {
    a = b("div", {b.cast(a, ElementType::f32), c.in(3)});
    a = b.cast(b.cast(a, ElementType::f8e4m3fn), ElementType::f32);
    a = b.cast(b("mul", {a, c.in(3)}), c.element(0));
  }
  c.out(0, times_weights(c, a, weights, c.in_or_null(4)));
}

namespace {

// The input, or the normalised sum of inputs 0 and 1; the sum is output `sum`.
Value* normalized_input(NodeImport& c, int sum) {
  const Attributes epsilon = {{"epsilon", c.number("epsilon", 1e-5)}};
  c.check(!c.has(1) || c.has(2), "input 1 (skip) is given without input {} (norm_scale)", 2);
  if (!c.has(2)) return c.in(0);
  if (!c.has(1)) return c.b("simplified_layer_normalization", {c.in(0), c.in(2)}, epsilon);
  Instruction* y =
      c.b.add("skip_simplified_layer_normalization", {c.in(0), c.in(1), c.in(2)}, epsilon);
  c.out(sum, y->result(3));
  return y->result(0);
}

// x times the weights in inputs `i` (codes), i + 1 (scales) and i + 2 (bias?).
Value* n_bits_product(NodeImport& c, Value* x, int i, int64_t n) {
  const bool int8 = c.integer("accuracy_level", 0) == 4;
  return c.b("matmul_n_bits", {x, c.in(i), c.in(i + 1), nullptr, nullptr, c.in_or_null(i + 2)},
             {{"k", c.integer("K")},
              {"n", n},
              {"bits", c.integer("bits", 4)},
              {"block_size", c.integer("block_size")},
              {"compute_type", std::string(int8 ? "int8" : "f32")}});
}

}  // namespace

// Inputs a, skip?, norm scale?, gate (codes, scales, bias?), up (codes, scales, bias?).
void import_matmul_n_bits_mlp(NodeImport& c) {
  const std::string_view activation = c.text("activation");
  c.supported(activation == "silu", "activation is '{}', expected silu", escape(activation));
  Value* x = normalized_input(c, 1);
  Value* gate = c.b("swish", {n_bits_product(c, x, 3, c.integer("N"))});
  c.out(0, c.b("mul", {gate, n_bits_product(c, x, 6, c.integer("N"))}));
}

// Inputs a, skip?, norm scale, then codes, scales and bias? of queries, keys and values.
void import_matmul_n_bits_qkv(NodeImport& c) {
  Value* x = normalized_input(c, 3);
  for (int i = 0; i < 3; ++i) {
    c.out(i, n_bits_product(c, x, 3 * i + 3, c.integer(i == 0 ? "Nq" : "Nkv")));
  }
}

namespace {

// Weights [directions, rows, 4 · hidden] with scales and zero points [directions] or
// [directions, 4 · hidden], as lstm has them: [directions, 4 · hidden, rows].
Value* lstm_weights(NodeImport& c, int weights, int scale) {
  Builder& b = c.b;
  const auto row = [&](int i) {
    return b.cast(b("reshape", {c.in(i), b.integers({0, 1, -1})}), ElementType::f32);
  };
  Value* centred = b("sub", {b.cast(c.in(weights), ElementType::f32), row(scale + 1)});
  return b.transpose(b("mul", {centred, row(scale)}), {0, 2, 1});
}

}  // namespace

// Inputs x, w, r, those of lstm from 3 to 7, then scale and zero point of w and of r. x is
// quantised as a whole, the hidden state is not.
void import_dynamic_quantize_lstm(NodeImport& c) {
  Builder& b = c.b;
  Instruction* x = b.add("dynamic_quantize_linear", {c.in(0)});
  std::vector<Value*> operands = {
      b("dequantize_linear", {x->result(0), x->result(1), x->result(2)}), lstm_weights(c, 1, 8),
      lstm_weights(c, 2, 10)};
  for (int i = 3; i < 8; ++i) operands.push_back(c.in_or_null(i));
  while (operands.back() == nullptr) operands.pop_back();
  c.plain("lstm", std::move(operands));
}

}  // namespace lathe::onnx
