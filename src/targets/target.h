// SPDX-License-Identifier: MIT
// A target supports a set of instructions and supplies their kernels.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "passes/choose_layouts.h"
#include "plan/plan.h"

namespace lathe {

class Target : public KernelSource {
 public:
  virtual std::string_view name() const = 0;
  virtual std::string_view doc() const = 0;
  // Empty if the target has a kernel for a lowered instruction of these types, else the reason.
  virtual std::string supports(const Instruction& instruction) const = 0;
  // True if lowering expands this composite; false if the target has a kernel for it.
  virtual bool expands(const Instruction& instruction) const = 0;
  // Reasons against fusion into one kernel: see FusionRules (passes/fuse_regions.h).
  virtual std::string why_no_epilogue(const Instruction& /*anchor*/, const Instruction& /*next*/,
                                      int /*operand*/) const {
    return "the target fuses nothing";
  }
  virtual std::string why_not_fused(const Instruction& /*elementwise*/) const {
    return "the target fuses nothing";
  }
  virtual std::string why_no_rows(const Instruction& /*instruction*/) const {
    return "the target fuses nothing";
  }
  // True if kernels compute f16 in f32: f32 intermediates avoid conversions.
  virtual bool widens_f16() const { return false; }
  // How the kernel of a placed instruction treats layouts.
  virtual LayoutUse layout_use(const Instruction& /*instruction*/) const {
    return LayoutUse::as_type;
  }
  // Unsupported if this build of the target cannot run on this machine.
  virtual void check_host() const {}
  // False if results are placeholders, which tests must not compare.
  virtual bool computes() const { return true; }
};

// Selects the best target present; the default of every target option.
constexpr std::string_view kAutoTarget = "auto";
// "ref", "cpu", "null", or "auto"; InvalidArgument with the nearest name otherwise.
std::shared_ptr<const Target> find_target(std::string_view name);
// Like find_target; null if this build lacks the target.
std::shared_ptr<const Target> present_target(std::string_view name);
// Names of all targets, without "auto".
std::vector<std::string_view> target_names();
// The targets present that "auto" may choose, best first. Never empty: ref is always present.
std::vector<std::string_view> targets_best_first();
void check_host();  // checks every target
// "cpu", "gpu": those that have a kernel for some instructions of the op. Others run it on ref.
std::vector<std::string_view> targets_with_kernel(const Op& op);

}  // namespace lathe
