// SPDX-License-Identifier: MIT
// Proves that a program is token-wise between its sequence operators: that a row of every value
// depends on the same row of the inputs alone, so that rows of different sequences can be packed on
// one axis, in any order and number, without changing each other.
#pragma once

#include <map>
#include <string>

#include "ir/program.h"

namespace lathe {

struct TokenAxes {
  // Values that have rows, and the axis along which they lie: one element for each row, or as many
  // for each as the axis is longer than there are rows.
  std::map<const Value*, int> rows;
  // The first instruction that is not token-wise, and why; null if there is none.
  const Instruction* not_packed_reason = nullptr;
  std::string reason;
};

// `inputs`: parameters of main that have rows, and along which axis; other parameters are taken for
// constants. The rows' extent is a symbol.
TokenAxes trace_tokens(const Module& main, const std::map<const Value*, int>& inputs);

}  // namespace lathe
