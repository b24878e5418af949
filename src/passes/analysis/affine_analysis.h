// SPDX-License-Identifier: MIT
// Affine analysis of index computations: ranges, comparisons of them, and the masks made of those.
// Values whose elements depend only on their own indices have a closed form.
#pragma once

#include <map>

#include "ir/program.h"
#include "passes/analysis/affine_bounds.h"
#include "passes/analysis/affine_value.h"

namespace lathe {

class AffineAnalysis {
 public:
  // `given`: affine values of parameters. `longest`: no symbol is greater.
  AffineAnalysis(const Module& main, std::map<const Value*, AffineValue> given,
                 int64_t longest = kLongestAxis);
  const AffineValue* find(const Value* value) const;

 private:
  std::map<const Value*, AffineValue> known_;
};

}  // namespace lathe
