// SPDX-License-Identifier: MIT
// Elementwise instructions, alone or as a region: one generated kernel, whose operands have any
// strides over the elements of the result.
#include <algorithm>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/interpret/access.h"
#include "passes/fuse_regions.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/kernel.h"
#include "targets/region_form.h"

namespace lathe::gpu {
namespace {

using interpret::Access;

constexpr size_t kMaxOperands = 16;
constexpr size_t kMaxInstructions = 32;

// A loaded value as one that is stored as the result's type.
std::string cast_of(const Instruction& cast, const std::string& x) {
  const ElementType from = cast.operands()[0]->type().element;
  const ElementType to = cast.result()->type().element;
  if (to == ElementType::boolean) return x + " != 0";
  if (is_floating(from) == is_floating(to) && from != ElementType::boolean) return x;
  if (!is_floating(to)) return "(i64)" + x;
  return (to == ElementType::f64 ? "(double)" : "(float)") + x;
}

class ElementwiseSource {
 public:
  ElementwiseSource(std::span<const Value* const> operands,
                    std::span<const Instruction* const> instructions, size_t rank) {
    std::string statements;
    std::vector<std::string> names;
    std::vector<const Value*> values;
    for (size_t i = 0; i < operands.size(); ++i) {
      names.push_back(fmt::format("x{}", i));
      values.push_back(operands[i]);
      const std::string_view type = type_name(operands[i]->type().element);
      members_ += fmt::format("  const {} *p{};\n  i64 s{}[{}];\n", type, i, i, rank);
      begins_ += fmt::format("    i64 o{} = 0;\n", i);
      steps_ += fmt::format("      o{0} += c * a.s{0}[axis];\n", i);
      loads_ += fmt::format("    const auto x{0} = fetch(a.p{0} + o{0});\n", i);
    }
    for (const Instruction* instruction : instructions) {
      std::vector<std::string> arguments;
      for (const Value* operand : instruction->operands()) {
        arguments.push_back(
            names[static_cast<size_t>(std::ranges::find(values, operand) - values.begin())]);
      }
      const std::string result = fmt::format("v{}", values.size());
      statements += instruction->op() == ops::cast
                        ? fmt::format("    const auto {} = {};\n", result,
                                      cast_of(*instruction, arguments[0]))
                        : print_expression(formula_of(*instruction), arguments, result);
      names.push_back(result);
      values.push_back(instruction->result());
      label += label.empty() ? "" : "+";
      label += instruction->op().name;
    }
    text = fmt::format(
        "struct Arguments {{\n  i64 count;\n  i64 rank;\n  i64 sizes[{0}];\n{1}  {2} *y;\n"
        "  i64 sy[{0}];\n}};\n"
        "KERNEL(elementwise, Arguments, 256) {{\n"
        "  for (i64 i = (i64)block_x() * thread_count() + thread_index(); i < a.count;\n"
        "       i += (i64)grid_x() * thread_count()) {{\n"
        "    i64 rest = i;\n    i64 oy = 0;\n{3}"
        "    for (i64 axis = a.rank - 1; axis >= 0; --axis) {{\n"
        "      i64 c = rest;\n"
        "      if (axis > 0) {{\n"
        "        const i64 d = a.sizes[axis];\n"
        "        rest = a.count >> 32 ? rest / d : (i64)((u32)rest / (u32)d);\n"
        "        c -= rest * d;\n      }}\n"
        "{4}      oy += c * a.sy[axis];\n    }}\n{5}{6}    put(a.y + oy, {7});\n  }}\n}}\n",
        rank, members_, type_name(instructions.back()->result()->type().element), begins_, steps_,
        loads_, statements, names.back());
  }

  std::string text;
  std::string label;  // "add+relu"

 private:
  std::string members_;
  std::string begins_;
  std::string steps_;
  std::string loads_;
};

class Elementwise final : public GpuKernel {
 public:
  Elementwise(const GpuDevice& device, std::span<const Value* const> operands,
              std::span<const Instruction* const> instructions)
      : GpuKernel(device, ""),
        operands_(operands.size()),
        rank_(std::max<size_t>(static_cast<size_t>(instructions.back()->result()->type().rank()),
                               1)) {
    const ElementwiseSource source(operands, instructions, rank_);
    name_ += source.label;
    code_ = device.code().get({"elementwise", source.text});
  }

  // An element of the result depends on those of the same index.
  bool may_overwrite(int /*operand*/) const override { return true; }

  void launch(const LaunchArgs& args) const override {
    const TensorView& y = *args.out[0];
    std::array<Access, kMaxOperands + 1> all;
    for (size_t i = 0; i < operands_; ++i) {
      all[i] = interpret::access_to(*args.in[i], y, static_cast<int>(i));
    }
    all[operands_] = {
        .data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides};
    interpret::Layout layout{.rank = y.rank, .dims = y.dims};
    const int64_t count = layout.count();
    if (count == 0) return;
    interpret::collapse(layout, std::span(all).first(operands_ + 1));
    const auto rank = static_cast<size_t>(layout.rank);
    Arguments arguments;
    arguments.add(count);
    arguments.add(std::max<int64_t>(layout.rank, 1));
    arguments.add(std::span(layout.dims).first(rank), rank_, 1);
    for (size_t i = 0; i <= operands_; ++i) {
      arguments.add(all[i].data);
      arguments.add(std::span(all[i].strides).first(rank), rank_);
    }
    enqueue(*code_, args, arguments, {blocks_for(count, kThreads), 1, 1}, kThreads);
  }

 private:
  size_t operands_;
  size_t rank_;
  std::shared_ptr<const Code> code_;
};

std::string why_not(const Instruction& instruction) { return why_no_elementwise(instruction); }

KernelChoice make(const GpuDevice& device, const Instruction& instruction,
                  Constants /*constants*/) {
  if (instruction.op() == ops::region) {
    const Module& body = *instruction.bodies()[0];
    std::vector<const Value*> operands;
    for (const auto& parameter : body.parameters()) operands.push_back(parameter.get());
    std::vector<const Instruction*> instructions;
    for (const auto& inner : body.instructions()) instructions.push_back(inner.get());
    return {std::make_unique<Elementwise>(device, operands, instructions), ""};
  }
  const std::vector<const Value*> operands(instruction.operands().begin(),
                                           instruction.operands().end());
  const std::array<const Instruction*, 1> alone{&instruction};
  return {std::make_unique<Elementwise>(device, operands, alone), ""};
}

std::string why_no_cast(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const ElementType from = instruction.operands()[0]->type().element;
  const ElementType to = instruction.result()->type().element;
  if (is_floating(from) && is_integer(to)) return "floats outside of an integer's range";
  // By way of f32 they would be rounded twice.
  const bool narrow = to == ElementType::f16 || to == ElementType::bf16;
  const bool wide = from == ElementType::f64 || (is_integer(from) && info(from).bits > 8);
  return narrow && wide ? "its rounding to 16 bits" : "";
}

}  // namespace

extern const KernelEntry kCast;
const KernelEntry kCast{ops::cast, why_no_cast, make};
extern const KernelEntry kElementwise;
const KernelEntry kElementwise{ops::identity, why_not, make};

std::string why_no_elementwise(const Instruction& instruction) {
  if (!is_elementwise(instruction.op())) return "it is not elementwise";
  if (instruction.operands().size() > kMaxOperands) return "it has too many operands";
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) return "an operand is absent";
  }
  return why_no_types(instruction);
}

std::string why_not_fused(const Instruction& instruction) {
  const std::string reason = why_no_elementwise(instruction);
  if (!reason.empty()) return reason;
  // Arithmetic of shapes: the host may read the result, and has no kernel of such regions.
  const Type& type = instruction.result()->type();
  if (is_integer(type.element) && type.rank() <= 1)
    return "an integer vector may belong to a shape";
  return why_not_in_register(instruction);
}

std::string why_no_elementwise_region(const Instruction& region) {
  const std::string reason =
      why_no_elementwise_body(region, {kMaxOperands, kMaxInstructions}, why_not_fused);
  return reason.empty() ? why_no_type(region.result()->type()) : reason;
}

}  // namespace lathe::gpu
