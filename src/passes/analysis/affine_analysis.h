// SPDX-License-Identifier: MIT
// What exporters write out about positions: ranges, comparisons of them, and masks made of those.
// Each value that depends on nothing but its own indices is known here as a formula.
#pragma once

#include <map>

#include "ir/program.h"
#include "passes/analysis/affine_value.h"

namespace lathe {

class PositionFlow {
 public:
  // `given`: what is known of parameters.
  PositionFlow(const Module& main, std::map<const Value*, Known> given);
  const Known* find(const Value* value) const;

 private:
  std::map<const Value*, Known> known_;
};

}  // namespace lathe
