// SPDX-License-Identifier: MIT
#include "passes/raise_quantized.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops.h"
#include "ir/rule.h"
#include "passes/value_queries.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

enum Operand : size_t { kValue, kScale, kZero };

// The operand behind casts to its own type, which some exporters write; null if it is absent.
Value* operand_of(const Instruction& instruction, size_t i) {
  Value* value = i < instruction.operands().size() ? instruction.operands()[i] : nullptr;
  while (value != nullptr && defined_by(*value, ops::cast) != nullptr &&
         value->definition()->operands()[0]->type() == value->type()) {
    value = value->definition()->operands()[0];
  }
  return value;
}

bool is_byte(const Type& type) {
  return type.element == ElementType::u8 || type.element == ElementType::i8;
}

// One scale in f32, and one zero point or none, all literals.
bool has_one_scale(const Instruction& instruction) {
  const Value* zero = operand_of(instruction, kZero);
  return operand_of(instruction, kScale)->type().element == ElementType::f32 &&
         number_of(*operand_of(instruction, kScale)) && (zero == nullptr || number_of(*zero));
}

// Bytes with one scale.
const Instruction* dequantized_activation(const Value& value) {
  const Instruction* found = defined_by(value, ops::dequantize_linear);
  const bool fits = found != nullptr && is_byte(operand_of(*found, kValue)->type()) &&
                    has_one_scale(*found) && value.type().element == ElementType::f32;
  return fits ? found : nullptr;
}

// Bytes that are constant, or of constants: PyTorch's exporters quantise weights in the graph.
bool are_constant_bytes(const Value& value) {
  const Instruction* quantize = defined_by(value, ops::quantize_linear);
  if (quantize == nullptr) return is_constant(value);
  return std::ranges::all_of(quantize->operands(), [](const Value* operand) {
    return operand == nullptr || is_constant(*operand);
  });
}

// Constant bytes with one scale, or one per element of `output_axis`.
const Instruction* dequantized_weights(const Value& value, int64_t output_axis) {
  const Instruction* found = defined_by(value, ops::dequantize_linear);
  if (found == nullptr || !is_byte(operand_of(*found, kValue)->type()) ||
      !are_constant_bytes(*operand_of(*found, kValue)) ||
      value.type().element != ElementType::f32) {
    return nullptr;
  }
  const auto integer = [&](std::string_view name) {
    const Attribute* attribute = find_attribute(found->attributes(), name);
    return attribute == nullptr ? 0 : std::get<int64_t>(*attribute);
  };
  const std::vector<double> scales = numbers_of(*operand_of(*found, kScale));
  const bool per_output = scales.size() > 1;
  const int64_t axis = integer("axis"), rank = value.type().rank();
  if (scales.empty() || integer("block_size") != 0 ||
      (per_output && (axis < 0 ? axis + rank : axis) != output_axis) ||
      operand_of(*found, kScale)->type().element != ElementType::f32) {
    return nullptr;
  }
  const Value* zero = operand_of(*found, kZero);
  return zero == nullptr || !numbers_of(*zero).empty() ? found : nullptr;
}

// The zero point, or a literal 0 of the type of the values.
Value* zero_of(Builder& b, const Instruction& instruction, ElementType type) {
  Value* zero = operand_of(instruction, kZero);
  return zero != nullptr ? zero : b.literal(Tensor(type, {}));
}

// Rounding a bias may move a result by this many steps of the output. With half a step left for
// the sums of the unfused program, no element of the fused one is more than one step away.
constexpr double kMostBiasError = 0.5;

// The bias in units of both scales; null, with `fits` cleared, if it is not constant or the units
// are too coarse.
Value* integer_bias(Builder& b, const Value* bias, double x_scale,
                    const std::vector<double>& w_scales, double y_scale, bool& fits) {
  if (bias == nullptr) return nullptr;
  std::vector<double> numbers = numbers_of(*bias);
  const Instruction* quantized = defined_by(*bias, ops::dequantize_linear);
  if (quantized != nullptr) {
    numbers = numbers_of(*operand_of(*quantized, kValue));
    const std::vector<double> scales = numbers_of(*operand_of(*quantized, kScale));
    const Value* zero = operand_of(*quantized, kZero);
    const std::vector<double> zeros = zero == nullptr ? std::vector<double>{} : numbers_of(*zero);
    const bool has_zero = std::ranges::any_of(zeros, [](double number) { return number != 0; });
    const bool fit = scales.size() == 1 || scales.size() == numbers.size();
    if (!fit || has_zero || (zero != nullptr && zeros.empty())) numbers.clear();
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] *= static_cast<float>(scales[scales.size() == 1 ? 0 : i]);
    }
  }
  fits = !numbers.empty();
  Tensor tensor(ElementType::i32, {static_cast<int64_t>(numbers.size())});
  for (size_t i = 0; i < numbers.size() && fits; ++i) {
    const double unit = x_scale * w_scales[w_scales.size() == 1 ? 0 : i];
    const double rounded = std::nearbyint(numbers[i] / unit);
    fits = std::abs(rounded) <= std::numeric_limits<int32_t>::max() &&
           std::abs(rounded - numbers[i] / unit) * unit <= kMostBiasError * y_scale;
    if (fits) tensor.as<int32_t>()[i] = static_cast<int32_t>(rounded);
  }
  return fits ? b.literal(std::move(tensor)) : nullptr;
}

// True if a result below zero saturates to the zero point.
bool saturates_at_zero(const Instruction& quantize) {
  const ElementType type = quantize.result()->type().element;
  const Value* zero = operand_of(quantize, kZero);
  const double number = zero == nullptr ? 0 : *number_of(*zero);
  return number == (type == ElementType::u8 ? 0 : -128);
}

ElementType type_of(const Instruction& dequantize) {
  return operand_of(dequantize, kValue)->type().element;
}

// The replacement under the name of what it replaces: `verify` compares values by name, each on
// the same inputs, and allows these one step.
Value* renamed(Match& match, Value* replacement) {
  Module& module = *match.root().module();
  const std::string name = match.root().result()->name();
  module.rename(match.root().result(), "");
  module.rename(replacement, name);
  return replacement;
}

Value* raise_convolution(Match& match) {
  const Instruction& quantize = match.root();
  if (!is_byte(quantize.result()->type()) || !has_one_scale(quantize)) return nullptr;
  Value* value = operand_of(quantize, kValue);
  const Instruction* relu = defined_by(*value, ops::relu);
  if (relu != nullptr) {
    if (value->uses().size() != 1 || !saturates_at_zero(quantize)) return nullptr;
    value = relu->operands()[0];
  }
  const Instruction* conv = defined_by(*value, ops::conv);
  if (conv == nullptr || value->uses().size() != 1) return nullptr;
  const Instruction* x = dequantized_activation(*conv->operands()[0]);
  const Instruction* w = dequantized_weights(*conv->operands()[1], 0);
  if (x == nullptr || w == nullptr) return nullptr;
  Builder& b = match.b;
  bool fits = true;
  Value* bias = integer_bias(b, operand_of(*conv, 2), *number_of(*operand_of(*x, kScale)),
                             numbers_of(*operand_of(*w, kScale)),
                             *number_of(*operand_of(quantize, kScale)), fits);
  if (!fits) return nullptr;
  Value* x_zero = zero_of(b, *x, type_of(*x));
  Value* w_zero = zero_of(b, *w, type_of(*w));
  Value* y_zero = zero_of(b, quantize, quantize.result()->type().element);
  return renamed(match,
                 b(ops::qlinear_conv,
                   {operand_of(*x, kValue), operand_of(*x, kScale), x_zero, operand_of(*w, kValue),
                    operand_of(*w, kScale), w_zero, operand_of(quantize, kScale), y_zero, bias},
                   conv->attributes()));
}

bool flag(const Instruction& instruction, std::string_view name) {
  const Attribute* attribute = find_attribute(instruction.attributes(), name);
  return attribute != nullptr && std::get<bool>(*attribute);
}

double factor(const Instruction& instruction, std::string_view name) {
  const Attribute* attribute = find_attribute(instruction.attributes(), name);
  return attribute == nullptr ? 1 : std::get<double>(*attribute);
}

// A product of bytes, with a bias per column; b is constant or an activation.
Value* raise_product(Match& match) {
  const Instruction& quantize = match.root();
  if (!is_byte(quantize.result()->type()) || !has_one_scale(quantize)) return nullptr;
  const Value* value = operand_of(quantize, kValue);
  const Instruction* product = value->definition();
  if (product == nullptr || value->uses().size() != 1 ||
      !is_any_of(product->op(), {&ops::matmul, &ops::gemm})) {
    return nullptr;
  }
  const bool is_gemm = product->op() == ops::gemm;
  if (is_gemm && (flag(*product, "trans_a") || factor(*product, "alpha") != 1 ||
                  factor(*product, "beta") != 1)) {
    return nullptr;
  }
  const bool transposed = is_gemm && flag(*product, "trans_b");
  const Value& right = *product->operands()[1];
  const Instruction* a = dequantized_activation(*product->operands()[0]);
  const Instruction* w = right.type().is_ranked() && right.type().rank() == 2
                             ? dequantized_weights(right, transposed ? 0 : 1)
                             : nullptr;
  if (w == nullptr) w = dequantized_activation(right);
  if (a == nullptr || w == nullptr || (is_gemm && !right.type().is_ranked())) return nullptr;
  Builder& b = match.b;
  Value* bias = nullptr;
  if (const Value* given = is_gemm ? operand_of(*product, 2) : nullptr; given != nullptr) {
    const std::vector<double> scales = numbers_of(*operand_of(*w, kScale));
    const Dim columns = (*right.type().dims)[transposed ? 0 : 1];
    if (!given->type().is_ranked() || given->type().rank() != 1 ||
        !((*given->type().dims)[0] == columns)) {
      return nullptr;
    }
    bool fits = true;
    bias = integer_bias(b, given, *number_of(*operand_of(*a, kScale)), scales,
                        *number_of(*operand_of(quantize, kScale)), fits);
    if (!fits) return nullptr;
  }
  Value* bytes = operand_of(*w, kValue);
  if (transposed) bytes = b.transpose(bytes, {1, 0});
  Value* a_zero = zero_of(b, *a, type_of(*a));
  Value* w_zero = zero_of(b, *w, type_of(*w));
  Value* y_zero = zero_of(b, quantize, quantize.result()->type().element);
  return renamed(match, b(ops::qlinear_matmul, {operand_of(*a, kValue), operand_of(*a, kScale),
                                                a_zero, bytes, operand_of(*w, kScale), w_zero,
                                                operand_of(quantize, kScale), y_zero, bias}));
}

bool is_move(const Instruction& instruction) {
  return is_any_of(instruction.op(),
                   {&ops::reshape, &ops::transpose, &ops::squeeze, &ops::unsqueeze});
}

// The move with other first operand and result.
Value* moved(Match& match, const Instruction& move, Value* x) {
  std::vector<Value*> operands = move.operands();
  operands[0] = x;
  return match.b.add(move.op(), std::move(operands), move.attributes())->result();
}

// quantize(move(x)): moves the bytes instead.
Value* quantize_before_move(Match& match) {
  const Instruction& quantize = match.root();
  const Value& value = *operand_of(quantize, kValue);
  const Instruction* move = value.definition();
  if (!is_byte(quantize.result()->type()) || !has_one_scale(quantize) || move == nullptr ||
      !is_move(*move) || value.uses().size() != 1) {
    return nullptr;
  }
  std::vector<Value*> operands = quantize.operands();
  operands[kValue] = move->operands()[0];
  Value* bytes =
      match.b.add(ops::quantize_linear, std::move(operands), quantize.attributes())->result();
  return renamed(match, moved(match, *move, bytes));
}

// move(dequantize(x)): moves the bytes instead.
Value* move_before_dequantize(Match& match) {
  const Instruction& move = match.root();
  const Instruction* from = dequantized_activation(*move.operands()[0]);
  if (from == nullptr) return nullptr;
  std::vector<Value*> operands = from->operands();
  operands[kValue] = moved(match, move, operand_of(*from, kValue));
  return renamed(
      match,
      match.b.add(ops::dequantize_linear, std::move(operands), from->attributes())->result());
}

// A max_pool has no window of padding alone, whose maximum is no byte.
bool windows_hold_elements(const Instruction& pool) {
  const auto integers = [&](std::string_view name) {
    const Attribute* attribute = find_attribute(pool.attributes(), name);
    return attribute == nullptr ? Integers{} : std::get<Integers>(*attribute);
  };
  const Attribute* mode = find_attribute(pool.attributes(), "ceil_mode");
  const Integers kernel = integers("kernel_shape"), pads = integers("pads");
  bool fits = mode == nullptr || !std::get<bool>(*mode);
  for (const int64_t dilation : integers("dilations")) fits &= dilation == 1;
  for (size_t i = 0; i < pads.size(); ++i) fits &= pads[i] < kernel[i % kernel.size()];
  return fits;
}

// quantize(max_pool(dequantize(x))): takes the maximum of bytes, whose order is that of the values.
Value* pool_bytes(Match& match) {
  const Instruction& quantize = match.root();
  if (!is_byte(quantize.result()->type()) || !has_one_scale(quantize)) return nullptr;
  const Value& value = *operand_of(quantize, kValue);
  const Instruction* pool = defined_by(value, ops::max_pool);
  if (pool == nullptr || value.uses().size() != 1 || &value != pool->result() ||
      !pool->result(1)->uses().empty() || !windows_hold_elements(*pool)) {
    return nullptr;
  }
  const Instruction* from = dequantized_activation(*pool->operands()[0]);
  if (from == nullptr || !(*number_of(*operand_of(*from, kScale)) > 0)) return nullptr;
  std::vector<Value*> bytes = from->operands(), operands = quantize.operands();
  bytes[kValue] = match.b(ops::max_pool, {operand_of(*from, kValue)}, pool->attributes());
  operands[kValue] = match.b(ops::dequantize_linear, std::move(bytes), from->attributes());
  return renamed(match, match.b(ops::quantize_linear, std::move(operands), quantize.attributes()));
}

// quantize(dequantize(x)) of equal scales.
Value* keep_bytes(Match& match) {
  const Instruction& quantize = match.root();
  if (!is_byte(quantize.result()->type()) || !has_one_scale(quantize)) return nullptr;
  const Instruction* from = dequantized_activation(*operand_of(quantize, kValue));
  if (from == nullptr ||
      !(operand_of(*from, kValue)->type().element == quantize.result()->type().element)) {
    return nullptr;
  }
  const auto number = [](const Instruction& i, size_t operand) {
    const Value* given = operand_of(i, operand);
    return given == nullptr ? 0 : *number_of(*given);
  };
  const bool same = number(*from, kScale) == number(quantize, kScale) &&
                    number(*from, kZero) == number(quantize, kZero);
  return same ? operand_of(*from, kValue) : nullptr;
}

const RuleTable& quantization_rules() {
  static const Pattern x = value("x"), scale = value("scale"), zero = value("zero"),
                       dims = value("dims"), starts = value("starts"), ends = value("ends"),
                       steps = value("steps");
  static const RuleTable table({
      {"raise_qlinear_conv", op(ops::quantize_linear, {x, scale, zero}), raise_convolution},
      {"raise_qlinear_conv", op(ops::quantize_linear, {x, scale}), raise_convolution},
      {"raise_qlinear_matmul", op(ops::quantize_linear, {x, scale, zero}), raise_product},
      {"raise_qlinear_matmul", op(ops::quantize_linear, {x, scale}), raise_product},
      {"keep_bytes", op(ops::quantize_linear, {x, scale, zero}), keep_bytes},
      {"keep_bytes", op(ops::quantize_linear, {x, scale}), keep_bytes},
      {"pool_bytes", op(ops::quantize_linear, {x, scale, zero}), pool_bytes},
      {"pool_bytes", op(ops::quantize_linear, {x, scale}), pool_bytes},
      {"quantize_before_move", op(ops::quantize_linear, {x, scale, zero}), quantize_before_move},
      {"quantize_before_move", op(ops::quantize_linear, {x, scale}), quantize_before_move},
      {"move_before_dequantize", op(ops::reshape, {x, dims}), move_before_dequantize},
      {"move_before_dequantize", op(ops::transpose, {x}), move_before_dequantize},
      {"move_before_dequantize", op(ops::squeeze, {x, dims}), move_before_dequantize},
      {"move_before_dequantize", op(ops::squeeze, {x}), move_before_dequantize},
      {"move_before_dequantize", op(ops::unsqueeze, {x, dims}), move_before_dequantize},
      {"move_before_dequantize", op(ops::slice, {x, starts, ends, dims}), move_before_dequantize},
      {"move_before_dequantize", op(ops::slice, {x, starts, ends, dims, steps}),
       move_before_dequantize},
  });
  return table;
}

}  // namespace

const Pass raise_quantized{
    .name = "raise_quantized",
    .doc = "Finds integer convolutions and products between quantisation and dequantisation.",
    .run = [](Program& program) { return quantization_rules().apply(program); },
};

}  // namespace lathe
