// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_form.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/math.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {

using codegen::NodeId;
using codegen::Phase;

void KernelForm::add_sums(const Value& value, const Sums& sums) {
  const auto times = [&](NodeId x, float factor) {
    return factor == 1 ? x : of_floats(ExprOp::mul, {x, number(factor)});
  };
  const auto load = [&](int operand, ElementType type) {
    return kernel.form.load(add_operand(operand, type), ExprType::f32);
  };
  NodeId x = times(load(sums.operand, ElementType::f32), sums.factor);
  if (sums.summand != kNone) {
    const NodeId y = times(load(sums.summand, sums.summand_type), sums.summand_factor);
    x = of_floats(ExprOp::add, {x, y});
  }
  values_[&value] = {x, ExprType::f32};
}

bool KernelForm::add(const Instruction& instruction, bool is_last) {
  const Value& result = *instruction.result();
  if (instruction.op() == ops::quantize_linear) {
    values_[&result] = {quantise(instruction, is_last), ExprType::i32};
    return true;
  }
  if (instruction.op() == ops::dequantize_linear) {
    values_[&result] = {dequantise(instruction), ExprType::f32};
    return true;
  }
  if (instruction.op() == ops::cast) {
    values_[&result] = cast(*instruction.operands()[0], result.type().element);
    return values_[&result].node != codegen::kNone;
  }
  if (instruction.op().formula == nullptr) return false;
  std::vector<NodeId> arguments;
  for (const Value* operand : instruction.operands()) {
    const ExprType type = compute_type(operand->type().element);
    const Typed value = value_of(operand, type);
    if (value.type != type) return false;
    arguments.push_back(value.node);
  }
  const Expr formula = formula_of(instruction);
  values_[&result] = {kernel.form.append(formula, arguments), formula.type()};
  return true;
}

void KernelForm::store(const Value& result, ElementType type) {
  const Typed& value = values_.at(&result);
  kernel.phases.push_back(
      {{{value.node, static_cast<int>(kernel.operands.size()), value.type}}, {}});
  kernel.operands.push_back({type});
}

// The place of an operand of the launch, or of the columns.
int KernelForm::place_of(int operand, ElementType type) {
  const auto known = std::ranges::find(operands, operand);
  if (known != operands.end()) return static_cast<int>(known - operands.begin());
  return add_operand(operand, type);
}

int KernelForm::add_operand(int operand, ElementType type) {
  operands.push_back(operand);
  kernel.operands.push_back({type});
  return static_cast<int>(operands.size()) - 1;
}

// Loaded as `type` if it is an operand of the launch.
KernelForm::Typed KernelForm::value_of(const Value* value, ExprType type) {
  const auto known = values_.find(value);
  if (known != values_.end()) return known->second;
  const auto at = static_cast<int>(std::ranges::find(launch_, value) - launch_.begin());
  return {kernel.form.load(place_of(at, value->type().element), type), type};
}

NodeId KernelForm::operation(ExprOp op, ExprType type, ExprType input_type,
                             std::initializer_list<NodeId> inputs) {
  return kernel.form.operation(op, type, input_type, inputs);
}

NodeId KernelForm::of_floats(ExprOp op, std::initializer_list<NodeId> inputs) {
  return operation(op, ExprType::f32, ExprType::f32, inputs);
}

NodeId KernelForm::number(float value) {
  return kernel.form.constant(ExprType::f32, std::bit_cast<uint32_t>(value));
}

NodeId KernelForm::float_of(const Value* bytes) {
  return operation(ExprOp::convert, ExprType::f32, ExprType::i32,
                   {value_of(bytes, ExprType::i32).node});
}

// Kernels of quantised steps compute with the zero point as a float.
NodeId KernelForm::zero_point(const Instruction& instruction) {
  return has_operand(instruction, 2) ? float_of(instruction.operands()[2]) : number(0);
}

// By the rules of Cast; without a node if they are not those of formulas.
KernelForm::Typed KernelForm::cast(const Value& x, ElementType to) {
  const ElementType from = x.type().element;
  if (!has_compute_type(from) || !has_compute_type(to)) return {};
  const Typed value = value_of(&x, compute_type(from));
  const ExprType type = compute_type(to);
  const bool is_float = lathe::is_floating(type), was_float = lathe::is_floating(value.type);
  if (was_float && lathe::is_integer(type)) {
    const bool low_bits_of_i32 = info(to).bits < 32 || to == ElementType::i32;
    if (value.type != ExprType::f32 || !low_bits_of_i32) return {};
    return {kernel.form.truncate(value.node), ExprType::i32};
  }
  // Rounded once: f32 holds every value, or is the result.
  const bool fits = was_float || value.type == ExprType::boolean || info(from).bits <= 16;
  if (is_float && !fits && to != ElementType::f32) return {};
  if (type == value.type) return value;
  return {operation(ExprOp::convert, type, value.type, {value.node}), type};
}

NodeId KernelForm::quantise(const Instruction& instruction, bool is_last) {
  const NodeId x = value_of(instruction.operands()[0], ExprType::f32).node;
  const NodeId scale = value_of(instruction.operands()[1], ExprType::f32).node;
  const bool is_signed = instruction.result()->type().element == ElementType::i8;
  NodeId y = of_floats(ExprOp::round_even, {of_floats(ExprOp::div, {x, scale})});
  y = of_floats(ExprOp::add, {y, zero_point(instruction)});
  y = of_floats(ExprOp::max, {y, number(is_signed ? -128 : 0)});
  y = of_floats(ExprOp::min, {y, number(is_signed ? 127 : 255)});
  return is_last ? kernel.form.truncate(y)  // NaN: its low bits are 0
                 : operation(ExprOp::convert, ExprType::i32, ExprType::f32, {y});
}

NodeId KernelForm::dequantise(const Instruction& instruction) {
  const NodeId x = float_of(instruction.operands()[0]);
  const NodeId scale = value_of(instruction.operands()[1], ExprType::f32).node;
  return of_floats(ExprOp::mul, {of_floats(ExprOp::sub, {x, zero_point(instruction)}), scale});
}

// A phase that reduces a value, as one row scalar.
NodeId KernelForm::reduction(Phase phase, ExprOp op, NodeId value) {
  phase.reductions.push_back({op, value, scalars_});
  kernel.phases.push_back(std::move(phase));
  return kernel.form.scalar(scalars_++, ExprType::f32);
}

NodeId KernelForm::mean(Phase phase, NodeId value) {
  const NodeId columns = kernel.form.load(place_of(kColumns, ElementType::f32), ExprType::f32);
  return of_floats(ExprOp::div, {reduction(std::move(phase), ExprOp::add, value), columns});
}

// What is computed for the rows is so once: later phases load it.
void KernelForm::add_rows(const Instruction& instruction) {
  Rows rows;
  rows.x = rows.loaded = value_of(instruction.operands()[0], ExprType::f32).node;
  if (kernel.form[rows.x].kind != codegen::Node::Kind::load) {
    const int row = add_operand(kTemporary, ElementType::f32);
    rows.first.stores.push_back({rows.x, row});
    rows.loaded = kernel.form.load(row, ExprType::f32);
  }
  const NodeId y = instruction.op() == ops::softmax       ? softmax(rows)
                   : instruction.op() == ops::log_softmax ? log_softmax(rows)
                                                          : normalise(instruction, rows);
  values_[instruction.result()] = {y, ExprType::f32};
}

// The powers replace the row, element by element.
NodeId KernelForm::softmax(const Rows& rows) {
  const NodeId most = reduction(rows.first, ExprOp::max, rows.x);
  const std::array difference{of_floats(ExprOp::sub, {rows.loaded, most})};
  const NodeId power = kernel.form.append(exp(Expr::argument(0, ExprType::f32)), difference);
  const int row = add_operand(kTemporary, ElementType::f32);
  const NodeId sum = reduction({{{power, row}}, {}}, ExprOp::add, power);
  return of_floats(ExprOp::mul, {kernel.form.load(row, ExprType::f32),
                                 of_floats(ExprOp::div, {number(1), sum})});
}

NodeId KernelForm::log_softmax(const Rows& rows) {
  const NodeId most = reduction(rows.first, ExprOp::max, rows.x);
  const std::array difference{of_floats(ExprOp::sub, {rows.loaded, most})};
  const NodeId power = kernel.form.append(exp(Expr::argument(0, ExprType::f32)), difference);
  const std::array sum{reduction({}, ExprOp::add, power)};
  return of_floats(ExprOp::sub,
                   {difference[0], kernel.form.append(log(Expr::argument(0, ExprType::f32)), sum)});
}

NodeId KernelForm::normalise(const Instruction& instruction, const Rows& rows) {
  const bool centred = instruction.op() == ops::layer_normalization;
  NodeId x = rows.loaded, square;
  if (centred) {
    x = of_floats(ExprOp::sub, {x, mean(rows.first, rows.x)});
    square = mean({}, of_floats(ExprOp::mul, {x, x}));
  } else {
    square = mean(rows.first, of_floats(ExprOp::mul, {rows.x, rows.x}));
  }
  const auto epsilon = static_cast<float>(attribute<double>(instruction, "epsilon"));
  const NodeId deviation =
      of_floats(ExprOp::sqrt, {of_floats(ExprOp::add, {square, number(epsilon)})});
  const auto operand = [&](size_t i) {
    return value_of(instruction.operands()[i], ExprType::f32).node;
  };
  NodeId y = of_floats(ExprOp::mul, {x, of_floats(ExprOp::div, {number(1), deviation})});
  y = of_floats(ExprOp::mul, {y, operand(1)});
  return centred && has_operand(instruction, 2) ? of_floats(ExprOp::add, {y, operand(2)}) : y;
}

}  // namespace lathe::cpu
