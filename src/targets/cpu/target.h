// SPDX-License-Identifier: MIT
#pragma once

#include "plan/packing_source.h"
#include "targets/target.h"

namespace lathe {

// Kernels for the best instruction set of the host. Unsupported instructions run on `ref` in the
// same plan.
class CpuTarget final : public Target, public PackingSource {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string_view doc() const override;
  std::string supports(const Instruction& instruction) const override;
  KernelChoice select(const Instruction& instruction, Constants constants) const override;
  bool expands(const Instruction& instruction) const override;
  std::string why_no_epilogue(const Instruction& anchor, const Instruction& next,
                              int operand) const override;
  bool widens_f16() const override { return true; }
  LayoutUse layout_use(const Instruction& instruction) const override;
  std::string why_not_fused(const Instruction& elementwise) const override;
  std::string why_no_rows(const Instruction& instruction) const override;
  bool packs(const Instruction& instruction, int operand) const override;
  bool packs_source(const Instruction& instruction, int operand) const override;
  std::string machine() const override;
  void check_host() const override;
};

}  // namespace lathe
