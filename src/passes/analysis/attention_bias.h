// SPDX-License-Identifier: MIT
// Additive biases and masks of attention as exporters write them: causal masks, windows and ALiBi,
// added up, selected by conditions, broadcast.
#pragma once

#include <vector>

#include "passes/analysis/kv_cache_uses.h"

namespace lathe {

struct AttentionBias {
  bool causal = false;
  int64_t window = 0;            // sliding window in tokens; 0: unlimited
  std::vector<double> slopes{};  // per head (one element: equal for all); empty: none

  void narrow_window(int64_t tokens);  // 0: unchanged
};

class AttentionBiases {
 public:
  AttentionBiases(const AffineAnalysis& flow, const TokenExtents& extents)
      : flow_(flow), extents_(extents) {}

  // Adds a bias that is multiplied by `scale`, or a boolean mask that is true where attention is
  // allowed. False if it is neither a causal mask nor ALiBi.
  bool join(const Value* value, double scale, AttentionBias& bias) const;
  // The scores in where(allowed, scores, low) or where(masked, low, scores); adds the mask to
  // `bias`. Null if the condition is not a causal mask.
  Value* unmasked(const Instruction& where, double scale, AttentionBias& bias) const;

 private:
  bool join(const Value* value, double scale, AttentionBias& bias, int steps) const;
  bool join_mask(const AffineValue& known, bool boolean, double scale, AttentionBias& bias) const;

  const AffineAnalysis& flow_;
  const TokenExtents& extents_;
};

}  // namespace lathe
