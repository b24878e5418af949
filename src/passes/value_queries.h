// SPDX-License-Identifier: MIT
// Queries of passes about values.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"

namespace lathe {

// True for literals that sessions cannot bind and for instructions evaluated when the plan is made.
bool is_constant(const Value& value);
// All elements of a literal that sessions cannot bind, as numbers; empty if it is none.
std::vector<double> numbers_of(const Value& value);
// The element of such a literal with one element, of any rank.
std::optional<double> number_of(const Value& value);

// The axes of a reduction that keeps them, from the front and sorted; empty if they are unknown.
std::vector<int64_t> kept_axes(const Instruction& reduction);

// True for a gather of whole rows of a matrix that is a literal which sessions cannot bind.
bool is_lookup(const Instruction& instruction);

// The instruction that defines the value if it has this op; else null.
const Instruction* defined_by(const Value& value, const Op& op);

}  // namespace lathe
