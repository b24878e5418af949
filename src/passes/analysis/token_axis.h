// SPDX-License-Identifier: MIT
// Proves that a program is token-wise between its sequence operators: token i of every value
// depends only on token i of the inputs. Tokens of different sequences can then be packed along one
// axis, in any order.
#pragma once

#include <map>
#include <string>

#include "ir/program.h"

namespace lathe {

struct TokenAxes {
  // The token axis of each value that has one. Its size is the number of tokens, or a multiple of
  // it.
  std::map<const Value*, int> axes;
  // The first instruction that is not token-wise; null if there is none.
  const Instruction* blocking = nullptr;
  std::string reason;
};

// `inputs`: parameters of main that have a token axis, and that axis; other parameters count as
// constants. The size of the token axis must be a symbol.
TokenAxes trace_tokens(const Module& main, const std::map<const Value*, int>& inputs);

}  // namespace lathe
