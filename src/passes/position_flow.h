// SPDX-License-Identifier: MIT
// What exporters write out about positions: ranges, comparisons of them, and masks made of those.
// Each value that depends on nothing but its own indices is known here as a formula.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/program.h"

namespace lathe {

// Σ steps[axis] · index[axis] + offset.
struct Linear {
  std::vector<int64_t> steps;
  Dim offset = 0;

  friend bool operator==(const Linear& a, const Linear& b) = default;
};

// An element is `linear`, or else `yes` where all conditions are at least 0, and `no` elsewhere.
struct Known {
  std::optional<Linear> linear;
  std::vector<Linear> conditions;
  double yes = 0;
  double no = 0;

  static Known index(Linear linear) { return {std::move(linear), {}, 0, 0}; }
  static Known constant(double value) { return {std::nullopt, {}, value, value}; }
  bool is_constant() const { return !linear && conditions.empty(); }
};

// Adding this or less to a score takes its weight away.
inline constexpr double kMasked = -9999;

class PositionFlow {
 public:
  // `given`: what is known of parameters.
  PositionFlow(const Module& main, std::map<const Value*, Known> given);
  const Known* find(const Value* value) const;

 private:
  std::map<const Value*, Known> known_;
};

// Which keys, along the last axis, the rows along the axis before it see: those up to the row's own
// position, or of them the last `window`.
struct KeyMask {
  int64_t window = 0;  // 0: all
};

// Of a mask that is added to scores (after multiplication by `scale`), or of booleans that allow.
// `past`: the position of row 0. nullopt if it is not one of position.
std::optional<KeyMask> key_mask(const Known& mask, bool boolean, double scale, const Dim& past,
                                const Dim& keys);

}  // namespace lathe
