// SPDX-License-Identifier: MIT
#include "targets/cpu/target.h"

#include "base/error.h"
#include "ir/ops.h"
#include "passes/fuse_regions.h"
#include "targets/cpu/column_source.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/epilogue_chain.h"
#include "targets/cpu/expert_source.h"
#include "targets/cpu/gated_product.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/panel_source.h"
#include "targets/cpu/row_region.h"

namespace lathe {
namespace {

std::string why_not(const cpu::KernelEntry& entry, const Instruction& instruction) {
  const std::optional<cpu::Isa> isa = cpu::best_isa();
  if (!isa) return "this processor does not support AVX2";
  std::string reason = cpu::not_in_build(*isa);
  return reason.empty() ? entry.why_not(instruction, *isa) : reason;
}

}  // namespace

std::string_view CpuTarget::doc() const {
  return "x86-64: kernels for the host's instruction set; other ops run on ref";
}

void CpuTarget::check_host() const {
  const std::optional<cpu::Isa> built = cpu::build_isa();
  if (!built || cpu::host_supports(*built)) return;
  std::vector<std::string_view> found;
  for (int i = 0; i < cpu::kIsaCount; ++i) {
    const cpu::Isa isa = static_cast<cpu::Isa>(i);
    if (cpu::host_supports(isa)) found.push_back(cpu::to_string(isa));
  }
  fail(ErrorKind::unsupported,
       "this build requires a processor with {}, this one has {}; build with LATHE_ISA=all",
       cpu::to_string(*built),
       found.empty() ? "no AVX2" : fmt::format("{}", fmt::join(found, ", ")));
}

std::string CpuTarget::supports(const Instruction& instruction) const {
  if (instruction.op().structural != Structural::none) return "";
  const cpu::KernelEntry* entry = cpu::find_entry(instruction.op());
  return entry != nullptr ? why_not(*entry, instruction)
                          : fmt::format("no CPU kernel for {}", instruction.op().name);
}

KernelChoice CpuTarget::select(const Instruction& instruction, Constants constants) const {
  KernelChoice choice;
  choice.reason = supports(instruction);
  if (choice.reason.empty() && instruction.op().structural == Structural::none) {
    choice = cpu::find_entry(instruction.op())->make(instruction, constants, *cpu::best_isa());
  }
  if (choice.kernel != nullptr) return choice;
  KernelChoice reference = make_reference_kernel(instruction);
  if (reference.kernel != nullptr) reference.reason = std::move(choice.reason);
  return reference;
}

namespace {

// Operands that kernels use as packed weights alone: see their reads().
bool packs_operand(const Instruction& instruction, int operand) {
  const Op& op = instruction.op();
  if (is_any_of(op, {&ops::matmul, &ops::gemm, &ops::conv, &ops::conv_transpose, &ops::conv_integer,
                     &ops::matmul_integer})) {
    return operand == 1;
  }
  if (is_any_of(op, {&ops::qlinear_matmul, &ops::qlinear_conv})) return operand == 3;
  if (op == ops::moe) return operand == 2 || operand == 4 || operand == 6;
  // Codes, scales, zero points.
  return is_any_of(op, {&ops::matmul_n_bits, &ops::gather_n_bits}) && operand >= 1 && operand <= 3;
}

}  // namespace

bool CpuTarget::packs(const Instruction& instruction, int operand) const {
  if (!supports(instruction).empty()) return false;
  if (instruction.op() == ops::gather) {
    return operand == 0 && cpu::looked_up_panels(instruction).has_value();
  }
  if (instruction.op() != ops::region) return packs_operand(instruction, operand);
  const Instruction* gated = cpu::gated_product(instruction);
  if (gated == nullptr && !cpu::EpilogueChain::why_not(instruction).empty()) return false;
  const Value& parameter = *instruction.bodies()[0]->parameters()[static_cast<size_t>(operand)];
  const Instruction& anchor =
      gated == nullptr ? cpu::EpilogueChain::anchor_of(instruction) : *gated;
  return parameter.uses().size() == 1 && parameter.uses()[0].user == &anchor &&
         packs_operand(anchor, parameter.uses()[0].index);
}

bool CpuTarget::packs_source(const Instruction& instruction, int operand) const {
  return packs(instruction, operand) &&
         (cpu::source_of_columns(instruction) != nullptr || cpu::panel_source(instruction) ||
          cpu::expert_source(instruction, operand));
}

std::string CpuTarget::machine() const {
  const std::optional<cpu::Isa> isa = cpu::best_isa();
  return isa ? std::string(cpu::to_string(*isa)) : "none";
}

bool CpuTarget::expands(const Instruction& instruction) const {
  if (instruction.op().expand == nullptr) return false;
  const cpu::KernelEntry* entry = cpu::find_entry(instruction.op());
  return entry == nullptr || !why_not(*entry, instruction).empty();
}

std::string CpuTarget::why_no_epilogue(const Instruction& anchor, const Instruction& next,
                                       int operand) const {
  if (operand == kHalves) {
    std::string reason = cpu::why_no_gate(anchor, next);
    return reason.empty() ? supports(anchor) : reason;
  }
  const bool precedes = is_prologue(anchor.op());
  const Instruction& computes = precedes ? next : anchor;
  std::string reason = cpu::EpilogueChain::why_no_anchor(computes);
  if (reason.empty()) reason = supports(computes);
  if (reason.empty() && precedes) reason = supports(anchor);
  if (!reason.empty()) return reason;
  return precedes ? cpu::EpilogueChain::why_no_prologue(anchor, next)
                  : cpu::EpilogueChain::why_not(anchor, next, operand);
}

std::string CpuTarget::why_not_fused(const Instruction& elementwise) const {
  return cpu::why_not_fused(elementwise);
}

std::string CpuTarget::why_no_rows(const Instruction& instruction) const {
  return cpu::why_no_rows(instruction);
}

LayoutUse CpuTarget::layout_use(const Instruction& instruction) const {
  const Op& op = instruction.op();
  if (!supports(instruction).empty()) return LayoutUse::as_type;
  if (op == ops::region) {
    const Op& anchor = cpu::EpilogueChain::anchor_of(instruction).op();
    return is_any_of(anchor, {&ops::conv, &ops::conv_transpose, &ops::qlinear_conv})
               ? LayoutUse::channels_last
           : cpu::why_no_elementwise_region(instruction).empty() ? LayoutUse::follows
                                                                 : LayoutUse::as_type;
  }
  if (is_any_of(op, {&ops::conv, &ops::conv_transpose, &ops::conv_integer, &ops::qlinear_conv})) {
    return LayoutUse::channels_last;
  }
  if (op == ops::attention) return LayoutUse::any_rows;
  const bool follows = is_any_of(
      op, {&ops::average_pool, &ops::max_pool, &ops::resize, &ops::quantize_linear,
           &ops::dequantize_linear, &ops::concat, &ops::pad, &ops::slice, &ops::split, &ops::tile});
  return follows || is_elementwise(op) ? LayoutUse::follows : LayoutUse::as_type;
}

}  // namespace lathe
