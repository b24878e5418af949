// SPDX-License-Identifier: MIT
// A kernel that can run as the anchor of a region.
#pragma once

#include <memory>
#include <optional>

#include "targets/cpu/epilogue_chain.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "targets/cpu/panel_source.h"

namespace lathe::cpu {

// The rest of a region, and its launch; the anchor sees a launch with its own operands.
struct AnchorEpilogue {
  const EpilogueChain* chain = nullptr;  // null: no region
  const LaunchArgs* args = nullptr;
  // The anchor multiplies its operand 0 by these first, [images or 1, channels, 1…]; null: it does
  // not.
  const TensorView* factors = nullptr;

  void reserve(const TensorView& result, ScratchLayout& workspace) const {
    if (chain != nullptr) chain->reserve(*args, result, workspace);
  }
  void append(const TensorView& result, const EpilogueStrides& strides, ScratchLayout& workspace,
              EpilogueChain::Steps& out) const {
    if (chain != nullptr) chain->append(*args, result, strides, workspace, out);
  }
};

class AnchorKernel : public Kernel {
 public:
  bool uses_workspace() const final { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const final {
    ScratchLayout workspace;
    reserve(most, {}, workspace);
    return workspace.bytes();
  }
  void launch(const LaunchArgs& args) const final { run(args, {}); }

  virtual void reserve(const LaunchArgs& most, const AnchorEpilogue& epilogue,
                       ScratchLayout& workspace) const = 0;
  virtual void run(const LaunchArgs& args, const AnchorEpilogue& epilogue) const = 0;
};

// `x` and `y`: the values of the plan that the instruction reads and writes. `scales_x`: the region
// begins with x times factors.
std::unique_ptr<const AnchorKernel> make_convolution_anchor(const Instruction& instruction,
                                                            Constants constants, Isa isa,
                                                            const Value& x, const Value& y,
                                                            bool scales_x = false);
// `source`: what it packs if its second operand is not among the constants.
std::unique_ptr<const AnchorKernel> make_matmul_anchor(const Instruction& instruction,
                                                       const std::optional<PanelSource>& source,
                                                       Constants constants, Isa isa);

}  // namespace lathe::cpu
