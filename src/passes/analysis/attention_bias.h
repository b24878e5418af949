// SPDX-License-Identifier: MIT
// What decides beside the scores, as exporters write it: masks by position and biases that grow
// with it, added one behind the other, chosen by conditions, seen with more axes.
#pragma once

#include <vector>

#include "passes/analysis/kv_cache_uses.h"

namespace lathe {

struct AttentionBias {
  bool causal = false;
  int64_t window = 0;            // of the last rows alone; 0: all
  std::vector<double> slopes{};  // per head (one: the same for all); empty: none

  void narrow(int64_t rows);  // 0: by nothing
};

class AttentionBiases {
 public:
  AttentionBiases(const AffineAnalysis& flow, const TokenExtents& extents)
      : flow_(flow), extents_(extents) {}

  // Joins what is added to scores and then multiplied by `scale`, or booleans that allow. False
  // where it is no mask by position and does not grow with it.
  bool join(const Value* value, double scale, AttentionBias& bias) const;
  // The scores in where(allowed, scores, low) or where(masked, low, scores), its mask joined; null
  // where it does not mask by position.
  Value* unmasked(const Instruction& where, double scale, AttentionBias& bias) const;

 private:
  bool join(const Value* value, double scale, AttentionBias& bias, int steps) const;
  bool join_mask(const AffineValue& known, bool boolean, double scale, AttentionBias& bias) const;

  const AffineAnalysis& flow_;
  const TokenExtents& extents_;
};

}  // namespace lathe
