// SPDX-License-Identifier: MIT
// What exporters write out about positions: ranges, comparisons of them, and masks made of those.
// Each value that depends on nothing but its own indices is known here as a formula.
#pragma once

#include <map>

#include "ir/program.h"
#include "passes/analysis/affine_value.h"

namespace lathe {

class AffineAnalysis {
 public:
  // `given`: what is known of parameters.
  AffineAnalysis(const Module& main, std::map<const Value*, AffineValue> given);
  const AffineValue* find(const Value* value) const;

 private:
  std::map<const Value*, AffineValue> known_;
};

}  // namespace lathe
