// SPDX-License-Identifier: MIT
// Chooses the order of axes in memory.
#pragma once

#include <functional>

#include "ir/pass.h"

namespace lathe {

// How an instruction treats layouts.
enum class LayoutUse : uint8_t {
  as_type,        // writes the type's order
  channels_last,  // writes channels-last at no cost, whatever it reads
  follows,        // writes the layout of an operand of its shape, or of operand 0
  any_rows,       // writes any order with the last axis innermost
};

// A value between instructions [n, c, spatial…] lies channels-last if its instruction prefers that,
// or follows an operand that does. A value that only transposes read lies in their order, if its
// instruction can write that. Results of modules keep their type's order.
Pass choose_layouts(std::function<LayoutUse(const Instruction& instruction)> use);

}  // namespace lathe
