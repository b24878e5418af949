// SPDX-License-Identifier: MIT
// Regions: an anchor with an epilogue, elementwise instructions, or rows between quantisations.
#include "ir/ops.h"
#include "targets/cpu/anchor.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/row_region.h"

namespace lathe::cpu {
namespace {

std::unique_ptr<const AnchorKernel> make_anchor(const Instruction& region, int x,
                                                Constants constants, Isa isa) {
  const Instruction& anchor = EpilogueChain::anchor_of(region);
  return anchor.op() == ops::conv
             ? make_convolution_anchor(anchor, constants, isa,
                                       *region.operands()[static_cast<size_t>(x)], *region.result(),
                                       EpilogueChain::prologue_of(region) != nullptr)
             : make_matmul_anchor(anchor, constants, isa);
}

class AnchoredRegion final : public Kernel {
 public:
  AnchoredRegion(const Instruction& region, Constants constants, Isa isa)
      : places_(EpilogueChain::anchor_operands(region)), chain_(region, constants) {
    std::vector<const Tensor*> own;
    for (const int place : places_) {
      own.push_back(place < 0 ? nullptr : constant_at(constants, static_cast<size_t>(place)));
    }
    anchor_ = make_anchor(region, places_[0], own, isa);
    factors_ = EpilogueChain::factor_operand(region);
    name_ = std::string(anchor_->name()) + chain_.text();
    if (factors_ >= 0) name_.insert(std::string_view("cpu.").size(), "mul+");
  }
  std::string_view name() const override { return name_; }
  std::string detail() const override { return anchor_->detail(); }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    with_own(most, [&](const LaunchArgs& own) {
      anchor_->reserve(own, {&chain_, &most, factors(most)}, workspace);
    });
    return workspace.bytes();
  }
  void launch(const LaunchArgs& args) const override {
    with_own(args,
             [&](const LaunchArgs& own) { anchor_->run(own, {&chain_, &args, factors(args)}); });
  }
  // A packed operand is read if the epilogue reads it too.
  bool reads(int operand) const override {
    if (operand == factors_) return true;
    int found = -1;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] == operand) found = static_cast<int>(i);
    }
    return found < 0 || chain_.reads(operand) || anchor_->reads(found);
  }

 private:
  const TensorView* factors(const LaunchArgs& args) const {
    return factors_ < 0 ? nullptr : args.in[static_cast<size_t>(factors_)];
  }

  // Calls f with a launch of the anchor's operands.
  template <class F>
  void with_own(const LaunchArgs& args, F&& f) const {
    std::array<const TensorView*, kMaxRank> in{};
    std::array<std::span<const int32_t>, kMaxRank> dims;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] < 0) continue;
      in[i] = args.in[static_cast<size_t>(places_[i])];
      dims[i] = args.in_dims[static_cast<size_t>(places_[i])];
    }
    LaunchArgs own = args;
    own.in = std::span(in).first(places_.size());
    own.in_dims = std::span(dims).first(places_.size());
    f(own);
  }

  std::vector<int> places_;
  int factors_ = -1;  // operand of the region; -1: none
  EpilogueChain chain_;
  std::unique_ptr<const AnchorKernel> anchor_;
  std::string name_;
};

std::string why_not(const Instruction& region, Isa isa) {
  if (why_no_elementwise_region(region).empty() || why_no_row_region(region).empty()) return "";
  const std::string reason = EpilogueChain::why_not(region);
  if (!reason.empty()) return reason;
  const Instruction& anchor = EpilogueChain::anchor_of(region);
  for (const KernelEntry& entry : kernel_table()) {
    if (entry.op == anchor.op()) return entry.why_not(anchor, isa);
  }
  return fmt::format("no CPU kernel for {}", anchor.op().name);
}

KernelChoice make(const Instruction& region, Constants constants, Isa isa) {
  if (why_no_elementwise_region(region).empty()) {
    return {make_elementwise_region(region, constants, isa), ""};
  }
  if (why_no_row_region(region).empty()) return {make_row_region(region, isa), ""};
  return {std::make_unique<AnchoredRegion>(region, constants, isa), ""};
}

}  // namespace

const KernelEntry kRegion{ops::region, why_not, make};

}  // namespace lathe::cpu
