// SPDX-License-Identifier: MIT
// Imports com.microsoft's QLinear operators: dequantises the inputs, applies the operator and
// quantises the result.
#include "import/onnx/operators/channels_last.h"
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// Dequantises input `i`; its scale and optional zero point follow it.
Value* numbers(NodeImport& c, int i) {
  return c.b("dequantize_linear", {c.in(i), c.in(i + 1), c.in_or_null(i + 2)});
}

// Quantises y with the scale in input `i` and the zero point after it.
Value* codes(NodeImport& c, Value* y, int i, ElementType type) {
  Value* zero = c.has(i + 1) ? c.in(i + 1) : c.b.scalar(type, 0);
  return c.b("quantize_linear", {y, c.in(i), zero});
}

void binary(NodeImport& c, std::string_view op) {
  Value* a = numbers(c, 0);
  c.out(0, codes(c, c.b(op, {a, numbers(c, 3)}), 6, c.element(0)));
}

void unary(NodeImport& c, std::string_view op, Attributes attributes = {}) {
  c.out(0, codes(c, c.b(op, {numbers(c, 0)}, std::move(attributes)), 3, c.element(0)));
}

}  // namespace

void import_qlinear_add(NodeImport& c) { binary(c, "add"); }
void import_qlinear_mul(NodeImport& c) { binary(c, "mul"); }
void import_qlinear_sigmoid(NodeImport& c) { unary(c, "sigmoid"); }

void import_qlinear_leaky_relu(NodeImport& c) {
  unary(c, "leaky_relu", {{"alpha", c.number("alpha", 0.01)}});
}

// Attribute opset selects the softmax. Before opset 13 the axes from `axis` on are flattened.
void import_qlinear_softmax(NodeImport& c) {
  const bool flattened = c.integer("opset") < 13;
  const int64_t axis = c.integer("axis", flattened ? 1 : -1);
  const int rank = c.rank(0);
  c.supported(!flattened || axis == rank - 1 || axis == -1,
              "axis {} of rank {} with a softmax of opset {} is not supported", axis, rank,
              c.integer("opset"));
  unary(c, "softmax", {{"axis", axis}});
}

void import_qlinear_reduce_mean(NodeImport& c) {
  Value* axes = c.b.integers(c.integers("axes"));
  Value* mean =
      c.b("reduce_mean", {numbers(c, 0), axes}, {{"keep_dims", c.integer("keepdims") != 0}});
  c.out(0, codes(c, mean, 3, c.element(0)));
}

void import_qlinear_average_pool(NodeImport& c) {
  const bool last = has_channels_last(c);
  const Op& pool = get_op("average_pool");
  const Attributes attributes = c.record_attributes(pool);
  Value* y = with_channels_first(c, numbers(c, 0), last,
                                 [&](Value* x) { return c.b("average_pool", {x}, attributes); });
  c.out(0, codes(c, y, 3, c.element(0)));
}

void import_qlinear_global_average_pool(NodeImport& c) {
  const bool last = has_channels_last(c);
  Value* y = with_channels_first(c, numbers(c, 0), last,
                                 [&](Value* x) { return c.b("global_average_pool", {x}); });
  c.out(0, codes(c, y, 3, c.element(0)));
}

// Inputs y_scale, y_zero_point, then three per part.
void import_qlinear_concat(NodeImport& c) {
  std::vector<Value*> parts;
  for (int i = 2; i < c.count(); i += 3) parts.push_back(numbers(c, i));
  c.check(!parts.empty(), "the node has {} inputs, expected at least 5", c.count());
  Value* y = c.b("concat", std::move(parts), {{"axis", c.integer("axis")}});
  c.out(0, codes(c, y, 0, c.element(2)));
}

void import_qlinear_where(NodeImport& c) {
  Value* x = numbers(c, 1);
  c.out(0, codes(c, c.b("where", {c.in(0), x, numbers(c, 4)}), 7, c.element(1)));
}

namespace {

// The integer GEMM of a and b without their zero points, times both scales.
Value* scaled_product(NodeImport& c, Value* a, Value* b, Value* a_zero, Value* b_zero,
                      Value* a_scale, Value* b_scale) {
  Value* sums = c.b("matmul_integer", {a, b, a_zero, b_zero});
  return c.b("mul", {c.b.cast(sums, ElementType::f32), c.b("mul", {a_scale, b_scale})});
}

}  // namespace

// Inputs a, b, b_scale, b_zero_point?, bias?. Quantises a dynamically.
void import_dynamic_quantize_matmul(NodeImport& c) {
  Instruction* a = c.b.add("dynamic_quantize_linear", {c.in(0)});
  Value* y = scaled_product(c, a->result(0), c.in(1), a->result(2), c.in_or_null(3), a->result(1),
                            c.in(2));
  c.out(0, c.has(4) ? c.b("add", {y, c.in(4)}) : y);
}

// Inputs a, b, a_scale, b_scale, a_zero_point?, b_zero_point?, bias?.
void import_matmul_integer_to_float(NodeImport& c) {
  Value* y =
      scaled_product(c, c.in(0), c.in(1), c.in_or_null(4), c.in_or_null(5), c.in(2), c.in(3));
  c.out(0, c.has(6) ? c.b("add", {y, c.in(6)}) : y);
}

// Inputs a, a_scale, a_zero_point, b, b_scale, b_zero_point, c?, y_scale?, y_zero_point?. The
// integers of c have the scale of the integer product, alpha · a_scale · b_scale.
void import_qgemm(NodeImport& c) {
  const auto matrix = [&](int i, std::string_view transposed) {
    return c.integer(transposed, 0) == 0 ? c.in(i) : c.b.transpose(c.in(i), {1, 0});
  };
  Value* a = matrix(0, "transA");
  Value* sums = c.b("matmul_integer", {a, matrix(3, "transB"), c.in_or_null(2), c.in_or_null(5)});
  if (c.has(6)) sums = c.b("add", {sums, c.in(6)});
  Value* factor = c.b("mul", {c.in(1), c.in(4)});
  const double alpha = c.number("alpha", 1.0);
  if (alpha != 1.0) factor = c.b("mul", {factor, c.b.scalar(factor->type().element, alpha)});
  Value* y = c.b("mul", {c.b.cast(sums, ElementType::f32), factor});
  c.out(0, c.has(7) ? codes(c, y, 7, c.has(8) ? c.element(8) : c.element(0)) : y);
}

void import_microsoft_qlinear_conv(NodeImport& c) {
  check_kernel_shape(c, 3);
  const Attributes attributes = c.record_attributes(get_op("qlinear_conv"));
  c.out(0, with_channels_first(c, c.in(0), has_channels_last(c), [&](Value* x) {
          std::vector<Value*> operands = c.inputs();
          operands[0] = x;
          return c.b("qlinear_conv", std::move(operands), attributes);
        }));
}

// Integers of 16 bits: products are accumulated in i32.
void import_matmul_integer_16(NodeImport& c) {
  const auto wide = [&](int i) { return c.b.cast(c.in(i), ElementType::i32); };
  Value* a = wide(0);
  c.out(0, c.b("matmul", {a, wide(1)}));
}

// Inputs a, a_zero_point?, b, b_zero_point?.
void import_mul_integer(NodeImport& c) {
  const auto centred = [&](int i) {
    Value* x = c.b.cast(c.in(i), ElementType::i32);
    return c.has(i + 1) ? c.b("sub", {x, c.b.cast(c.in(i + 1), ElementType::i32)}) : x;
  };
  Value* a = centred(0);
  c.out(0, c.b("mul", {a, centred(2)}));
}

void import_reduce_sum_integer(NodeImport& c) {
  Value* axes = c.b.integers(c.integers("axes"));
  c.out(0, c.b("reduce_sum", {c.b.cast(c.in(0), ElementType::i32), axes},
               {{"keep_dims", c.integer("keepdims") != 0}}));
}

}  // namespace lathe::onnx
