// SPDX-License-Identifier: MIT
// Any elementwise instructions behind an anchor, as one generated kernel that runs on each tile of
// its accumulators while that is in the L1 cache.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "targets/cpu/elementwise_program.h"
#include "targets/cpu/kernel_variants.h"
#include "targets/cpu/kernels/gemm/epilogue.h"

namespace lathe::cpu {

class TileEpilogue final : public TileCode {
 public:
  // What the anchor itself does with its accumulators, by the first steps of the epilogue.
  struct Anchor {
    const Value* result = nullptr;
    float factor = 1;                      // not 1: of the first step, which has no operand
    std::optional<ElementType> summand{};  // of the next step; none: nothing is added
    float summand_factor = 1;
  };

  // `parameters`: what the instructions read beside the anchor's result and each other, the
  // operands of the epilogue's other steps. `out`: as which the last result is stored.
  TileEpilogue(const Anchor& anchor, std::span<const Value* const> parameters,
               std::span<const Instruction* const> instructions, ElementType out, Isa isa);

  bool is_generated() const { return variants_ != nullptr; }

 private:
  static constexpr int kSums = -1;
  void finish(const Epilogue& epilogue, const EpilogueTile& tile) const;
  bool run_generated(const Epilogue& epilogue, const EpilogueTile& tile) const;
  void interpret(const Epilogue& epilogue, const EpilogueTile& tile) const;

  Isa isa_;
  size_t own_steps_ = 0;                            // of the anchor
  std::vector<int> sources_;                        // of generated code: steps, or kSums
  std::shared_ptr<const KernelVariants> variants_;  // null: none
  size_t sums_ = 0;                                 // as which operand the interpreter reads them
  ElementwiseProgram program_;                      // where generated code does not run
};

}  // namespace lathe::cpu
