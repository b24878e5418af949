// SPDX-License-Identifier: MIT
// Regions: an anchor with an epilogue, a gated GEMM, elementwise instructions, or these with
// rows.
#include <algorithm>

#include "ir/ops.h"
#include "targets/cpu/anchor.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/gated_product.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/row_region.h"

namespace lathe::cpu {
namespace {

// Launches of a region that begins with a mean.
constexpr size_t kMaxOperands = 16;

// The mean over positions with which a region begins; null: none.
const Instruction* mean_of(const Instruction& region) {
  const Instruction* prologue = EpilogueChain::prologue_of(region);
  const bool is_mean = prologue != nullptr && prologue->op() == ops::global_average_pool;
  return is_mean ? prologue : nullptr;
}

std::unique_ptr<const AnchorKernel> make_anchor(const Instruction& region, int x,
                                                Constants constants, Isa isa) {
  const Instruction& anchor = EpilogueChain::anchor_of(region);
  if (!is_any_of(anchor.op(), {&ops::conv, &ops::conv_transpose, &ops::qlinear_conv}))
    return make_matmul_anchor(anchor, panel_source(region), constants, isa);
  const bool is_mean = mean_of(region) != nullptr;
  return make_convolution_anchor(
      anchor, constants, isa,
      is_mean ? *anchor.operands()[0] : *region.operands()[static_cast<size_t>(x)],
      *region.result(), EpilogueChain::factor_operand(region) >= 0);
}

class AnchoredRegion final : public Kernel {
 public:
  AnchoredRegion(const Instruction& region, Constants constants, Isa isa)
      : places_(EpilogueChain::anchor_operands(region)), chain_(region, constants, isa) {
    std::vector<const Tensor*> own;
    for (const int place : places_) {
      const bool given = place >= 0 && static_cast<size_t>(place) < region.operands().size();
      own.push_back(given ? constant_at(constants, static_cast<size_t>(place)) : nullptr);
    }
    anchor_ = make_anchor(region, places_[0], own, isa);
    factors_ = EpilogueChain::factor_operand(region);
    name_ = std::string(anchor_->name()) + chain_.text();
    if (const Instruction* prologue = EpilogueChain::prologue_of(region); prologue != nullptr) {
      name_.insert(std::string_view("cpu.").size(), fmt::format("{}+", prologue->op().name));
    }
  }
  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return anchor_->detail() + (chain_.is_generated() ? ", generated epilogue" : "");
  }
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

// A mean over positions, kept in the workspace, and the anchor that reads it.
class MeanRegion final : public Kernel {
 public:
  MeanRegion(const Instruction& region, Constants constants, Isa isa)
      : x_(mean_of(region)->operands()[0]->index()),
        mean_(kGlobalAveragePool.make(*mean_of(region), {}, isa).kernel),
        rest_(region, constants, isa) {}
  std::string_view name() const override { return rest_.name(); }
  std::string detail() const override { return rest_.detail(); }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    int64_t bytes = 0;
    with_mean(most, workspace, [&](const LaunchArgs& mean, const LaunchArgs& rest) {
      bytes = std::max(mean_->workspace_bytes(mean), rest_.workspace_bytes(rest));
    });
    return workspace.bytes() + bytes;
  }
  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    with_mean(args, workspace, [&](LaunchArgs& mean, LaunchArgs& rest) {
      mean.workspace = rest.workspace = workspace.take<std::byte>(0);
      mean_->launch(mean);
      rest_.launch(rest);
    });
  }
  bool reads(int operand) const override { return operand == x_ || rest_.reads(operand); }

 private:
  // Calls f with the launches of the mean and of the rest, which reads it behind its own operands.
  template <class F>
  void with_mean(const LaunchArgs& args, ScratchLayout& workspace, F&& f) const {
    const auto x = static_cast<size_t>(x_);
    TensorView mean = *args.in[x];
    std::fill_n(mean.dims.begin() + 2, mean.rank - 2, 1);
    mean = dense_strides_of(mean);
    mean.data = workspace.take<std::byte>(bytes_for(mean.type, mean.count()));
    TensorView* const out = &mean;
    LaunchArgs first = args;
    first.in = args.in.subspan(x, 1);
    first.in_dims = args.in_dims.subspan(x, 1);
    first.out = std::span(&out, 1);
    std::array<const TensorView*, kMaxOperands + 1> in{};
    std::array<std::span<const int32_t>, kMaxOperands + 1> in_dims;
    std::ranges::copy(args.in, in.begin());
    std::ranges::copy(args.in_dims, in_dims.begin());
    in[args.in.size()] = &mean;
    in_dims[args.in.size()] = args.in_dims[x];
    LaunchArgs second = args;
    second.in = std::span(in).first(args.in.size() + 1);
    second.in_dims = std::span(in_dims).first(args.in.size() + 1);
    f(first, second);
  }

  int x_;  // operand of the region
  std::unique_ptr<const Kernel> mean_;
  AnchoredRegion rest_;
};

std::string why_not(const Instruction& region, Isa isa) {
  if (gated_product(region) != nullptr) return "";
  if (why_no_elementwise_region(region).empty() || why_no_row_region(region).empty()) return "";
  const std::string reason = EpilogueChain::why_not(region);
  if (!reason.empty()) return reason;
  const Instruction* mean = mean_of(region);
  if (mean != nullptr) {
    if (region.operands().size() > kMaxOperands) return "it has too many operands";
    const std::string why_no_mean = kGlobalAveragePool.why_not(*mean, isa);
    if (!why_no_mean.empty()) return why_no_mean;
  }
  const Instruction& anchor = EpilogueChain::anchor_of(region);
  for (const KernelEntry& entry : kernel_table()) {
    if (entry.op == anchor.op()) return entry.why_not(anchor, isa);
  }
  return fmt::format("no CPU kernel for {}", anchor.op().name);
}

KernelChoice make(const Instruction& region, Constants constants, Isa isa) {
  if (gated_product(region) != nullptr) return make_gated_product(region, constants, isa);
  if (why_no_elementwise_region(region).empty()) {
    return {make_elementwise_region(region, constants, isa), ""};
  }
  if (why_no_row_region(region).empty()) return {make_row_region(region, isa), ""};
  if (mean_of(region) != nullptr) {
    return {std::make_unique<MeanRegion>(region, constants, isa), ""};
  }
  return {std::make_unique<AnchoredRegion>(region, constants, isa), ""};
}

}  // namespace

const KernelEntry kRegion{ops::region, why_not, make};

}  // namespace lathe::cpu
