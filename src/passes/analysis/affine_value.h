// SPDX-License-Identifier: MIT
// Affine values: tensors whose elements depend only on their own indices.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/dim.h"

namespace lathe {

// Σ steps[axis] · index[axis] + offset.
struct Linear {
  std::vector<int64_t> steps;
  Dim offset = 0;

  friend bool operator==(const Linear& a, const Linear& b) = default;
};

// An element is `linear` if set; else `yes` where all conditions are at least 0, and `no`
// elsewhere.
struct AffineValue {
  std::optional<Linear> linear;
  std::vector<Linear> conditions;
  double yes = 0;
  double no = 0;
  // Different masked values were joined: `yes` and `no` are upper bounds, which can mask a score
  // but not be compared.
  bool joins_masks = false;

  static AffineValue index(Linear linear) { return {std::move(linear), {}, 0, 0}; }
  static AffineValue constant(double value) { return {std::nullopt, {}, value, value}; }
  bool is_constant() const { return !linear && conditions.empty(); }
};

// A bias at or below this masks a score. bf16 rounds the usual -10000 to -9984.
inline constexpr double kMasked = -9000;

// Applies `function` elementwise to choices broadcast to `rank` axes. Fails unless all branches
// other than all-yes agree or are masked, or one test decides the value. `function` must grow with
// each choice that joins masks.
std::optional<AffineValue> join_choices(
    std::span<const AffineValue* const> choices, int rank,
    const std::function<double(double, double, double)>& function);

// aligned: adds leading axes up to `rank`. sum: a + sign · b.
Linear aligned(Linear linear, int rank);
Linear sum(const Linear& a, const Linear& b, int64_t sign);
// Negates a single condition if needed, so that `yes` is the larger value.
void prefer_yes(AffineValue& known);

// A causal mask over the last two axes, [query, key]: a query attends to keys up to its own
// position, or to the last `window` of those.
struct KeyMask {
  int64_t window = 0;  // 0: unlimited
};

// Recognises a causal mask: an additive bias (multiplied by `scale`), or booleans that are true
// where attention is allowed. `past`: position of query 0. nullopt for any other mask.
std::optional<KeyMask> key_mask(const AffineValue& mask, bool boolean, double scale,
                                const Dim& past, const Dim& keys);

}  // namespace lathe
