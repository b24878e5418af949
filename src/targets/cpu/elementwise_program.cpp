// SPDX-License-Identifier: MIT
#include "targets/cpu/elementwise_program.h"

#include <algorithm>

#include "ir/ops.h"
#include "passes/fuse_regions.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"
#include "targets/region_form.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

bool is_f32(const Instruction& instruction) {
  return instruction.result()->type().element == ElementType::f32 &&
         std::ranges::all_of(instruction.operands(), [](const Value* operand) {
           return operand->type().element == ElementType::f32;
         });
}

bool is_byte(const Value& value) {
  return value.type().element == ElementType::u8 || value.type().element == ElementType::i8;
}

bool is_quantisation(const Instruction& instruction) {
  return is_any_of(instruction.op(), {&ops::quantize_linear, &ops::dequantize_linear});
}

// The operands that a step reads as elements: those of a quantisation are parameters but for one.
std::span<Value* const> elements_of(const Instruction& instruction) {
  const std::span<Value* const> all = instruction.operands();
  return is_quantisation(instruction) ? all.first(1) : all;
}

// Reason why the quantisation is no step of a region: between f32 and bytes with one scale.
std::string why_no_quantised_step(const Instruction& instruction) {
  const Value& x = *instruction.operands()[0];
  const Value& y = *instruction.result();
  const bool quantises = instruction.op() == ops::quantize_linear;
  const Value& real = quantises ? x : y;
  if (!is_byte(quantises ? y : x) || real.type().element != ElementType::f32 ||
      instruction.operands()[1]->type().element != ElementType::f32) {
    return fmt::format("{} to {}, supported: f32 and u8 or i8", to_string(x.type().element),
                       to_string(y.type().element));
  }
  for (size_t i = 1; i < instruction.operands().size(); ++i) {
    const Value* operand = instruction.operands()[i];
    if (operand != nullptr &&
        !std::ranges::all_of(*operand->type().dims, [](const Dim& dim) { return dim == Dim(1); })) {
      return "it has several scales or zero points";
    }
  }
  return "";
}

// Reason why the cast is no step of a region: to f32 or booleans, from types that generated code
// loads. Others round, wrap or saturate, which a register of the compute type would not.
std::string why_no_cast_step(const Instruction& cast) {
  const ElementType from = cast.operands()[0]->type().element;
  const ElementType to = cast.result()->type().element;
  const int bits = info(from).bits;
  const int most = is_integer(from) && to == ElementType::boolean ? 64 : 32;
  const bool loads = has_compute_type(from) && bits <= most && bits >= (is_floating(from) ? 16 : 8);
  const bool keeps = to == ElementType::f32 || to == ElementType::boolean;
  return loads && keeps ? "" : fmt::format("{} to {}", to_string(from), to_string(to));
}

Expr formula_of_step(const Instruction& instruction) {
  if (instruction.op() != ops::cast) return formula_of(instruction);
  const ExprType from = compute_type(instruction.operands()[0]->type().element);
  return convert(Expr::argument(0, from), compute_type(instruction.result()->type().element));
}

void convert_with(const void* ops, ElementType to, void* dst, ElementType from, const void* src,
                  int64_t count) {
  convert_elements(*static_cast<const VectorOps*>(ops), to, dst, from, src, count);
}

}  // namespace

std::string why_no_elementwise(const Instruction& instruction) {
  if (!is_elementwise(instruction.op())) return "it is not elementwise";
  if (instruction.operands().size() > ElementwiseProgram::kMaxOperands) {
    return "it has too many operands";
  }
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) return "an operand is absent";
    if (!has_compute_type(operand->type().element)) {
      return fmt::format("an operand is {}", to_string(operand->type().element));
    }
  }
  const ElementType result = instruction.result()->type().element;
  return has_compute_type(result) ? "" : fmt::format("the result is {}", to_string(result));
}

std::string why_not_fused(const Instruction& instruction) {
  if (is_quantisation(instruction)) return why_no_quantised_step(instruction);
  if (instruction.op() == ops::cast) return why_no_cast_step(instruction);
  const std::string reason = why_no_elementwise(instruction);
  return reason.empty() ? why_not_in_register(instruction) : reason;
}

std::string why_no_elementwise_region(const Instruction& region) {
  for (const auto& instruction : region.bodies()[0]->instructions()) {
    if (reads_rounded(*instruction) && instruction->operands()[0]->definition() != nullptr) {
      return "a cast reads a value of 16 bits that the region computes";
    }
  }
  return why_no_elementwise_body(
      region, {ElementwiseProgram::kMaxOperands, ElementwiseProgram::kMaxSteps}, why_not_fused);
}

ElementwiseProgram::ElementwiseProgram(std::span<const Value* const> operands,
                                       std::span<const Instruction* const> instructions, Isa isa)
    : isa_(isa), converter_{convert_with, &vector_ops(isa)} {
  for (const Instruction* instruction : instructions) add_loads(operands, *instruction);
  std::vector<const Value*> values;
  for (const Load& load : loads_) {
    const Value* operand = operands[static_cast<size_t>(load.operand)];
    values.push_back(operand);
    registers_.push_back(
        {load.bytes ? ExprType::f32 : compute_type(operand->type().element), load.bytes});
  }
  for (const Instruction* instruction : instructions) {
    steps_.push_back(make_step(operands, *instruction));
    Step& step = steps_.back();
    const bool dequantises = step.quantisation.kind == Quantisation::Kind::dequantise;
    for (const Value* operand : elements_of(*instruction)) {
      size_t at = 0;
      while (values[at] != operand || (at < loads_.size() && loads_[at].bytes != dequantises)) ++at;
      step.inputs[step.count++] = static_cast<int>(at);
    }
    step.output = static_cast<int>(values.size());
    const Value& result = *instruction->result();
    values.push_back(&result);
    registers_.push_back({compute_type(result.type().element),
                          step.quantisation.kind == Quantisation::Kind::quantise});
  }
  out_type_ = values.back()->type().element;
  for (const Register& own : registers_) {
    offsets_.push_back(bytes_);
    // Bytes that are not read in place are loaded as f32.
    bytes_ += own.bytes ? int64_t{offsets_.size() <= loads_.size() ? 4 : 1}
                        : info(interpret::register_type(own.type)).bits / 8;
  }
  wide_ = bytes_;
  if (registers_.back().bytes) bytes_ += 8;
}

void ElementwiseProgram::add_loads(std::span<const Value* const> operands,
                                   const Instruction& instruction) {
  const bool dequantises = instruction.op() == ops::dequantize_linear;
  for (const Value* operand : elements_of(instruction)) {
    const auto at = std::ranges::find(operands, operand);
    if (at == operands.end()) continue;
    const auto place = static_cast<int>(at - operands.begin());
    const bool known = std::ranges::any_of(loads_, [&](const Load& load) {
      return load.operand == place && load.bytes == dequantises;
    });
    if (!known) loads_.push_back({place, dequantises});
  }
}

ElementwiseProgram::Step ElementwiseProgram::make_step(std::span<const Value* const> operands,
                                                       const Instruction& instruction) const {
  Step step;
  if (is_quantisation(instruction)) {
    const bool quantises = instruction.op() == ops::quantize_linear;
    const Value& bytes = quantises ? *instruction.result() : *instruction.operands()[0];
    const auto place = [&](size_t i) {
      if (!has_operand(instruction, i)) return -1;
      const auto at = std::ranges::find(operands, instruction.operands()[i]);
      return static_cast<int>(at - operands.begin());
    };
    step.quantisation = {quantises ? Quantisation::Kind::quantise : Quantisation::Kind::dequantise,
                         bytes.type().element == ElementType::i8, place(1), place(2)};
    return step;
  }
  const RowOps& rows = row_ops(isa_);
  const Op& op = instruction.op();
  if (is_f32(instruction)) step.activation = activation_of(instruction);
  if (step.activation) return step;
  if (is_f32(instruction) && instruction.operands().size() == 2) {
    step.binary = op == ops::add   ? rows.add
                  : op == ops::sub ? rows.sub
                  : op == ops::mul ? rows.mul
                                   : nullptr;
    step.is_swiglu = op == ops::swiglu;
    if (step.is_swiglu) {
      step.alpha = static_cast<float>(attribute<double>(instruction, "alpha"));
    }
    if (step.binary != nullptr || step.is_swiglu) return step;
  }
  step.formula.emplace(formula_of_step(instruction));
  return step;
}

float ElementwiseProgram::number_of(const TensorView& view) {
  float value = 0;
  convert(ElementType::f32, &value, view.type, view.data, 1);
  return value;
}

std::vector<int> ElementwiseProgram::parameter_operands() const {
  std::vector<int> found;
  for (const Step& step : steps_) {
    for (const int operand : {step.quantisation.scale, step.quantisation.zero}) {
      if (operand >= 0) found.push_back(operand);
    }
  }
  return found;
}

}  // namespace lathe::cpu
