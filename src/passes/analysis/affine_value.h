// SPDX-License-Identifier: MIT
// What can be known of a tensor whose elements depend on their own indices alone.
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

// An element is `linear`, or else `yes` where all conditions are at least 0, and `no` elsewhere.
struct AffineValue {
  std::optional<Linear> linear;
  std::vector<Linear> conditions;
  double yes = 0;
  double no = 0;

  static AffineValue index(Linear linear) { return {std::move(linear), {}, 0, 0}; }
  static AffineValue constant(double value) { return {std::nullopt, {}, value, value}; }
  bool is_constant() const { return !linear && conditions.empty(); }
};

// Adding this or less to a score takes its weight away; bf16 makes -9984 of the usual -10000.
inline constexpr double kMasked = -9000;

// Choices seen with `rank` axes and joined element by element: still a choice if all that are not
// wholly `yes` come to the same, or take a score's weight away; or if one test settles it.
std::optional<AffineValue> join_choices(std::span<const AffineValue* const> choices, int rank,
                                        double (*function)(double a, double b, double c));

// Seen with more axes before its own; a + sign · b.
Linear aligned(Linear linear, int rank);
Linear sum(const Linear& a, const Linear& b, int64_t sign);
// One condition can be turned about: `yes` becomes the larger of both.
void prefer_yes(AffineValue& known);

// Which keys, along the last axis, the rows along the axis before it see: those up to the row's own
// position, or of them the last `window`.
struct KeyMask {
  int64_t window = 0;  // 0: all
};

// Of a mask that is added to scores (after multiplication by `scale`), or of booleans that allow.
// `past`: the position of row 0. nullopt if it is not one of position.
std::optional<KeyMask> key_mask(const AffineValue& mask, bool boolean, double scale,
                                const Dim& past, const Dim& keys);

}  // namespace lathe
