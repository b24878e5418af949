// SPDX-License-Identifier: MIT
// Shared by if, loop and scan: types of bodies, and types that leave a body.
#pragma once

#include <set>
#include <string>

#include "ir/infer.h"

namespace lathe {

// A count in an attribute; -1 if it is out of range.
int count_attribute(const Instruction& instruction, std::string_view name);

// Sets captured parameters to the type and symbolic values of their operands.
void bind_captures(Instruction& instruction, int body);

// Symbols that are defined only inside the body: those of its instructions, and those of parameters
// that change between calls.
std::set<std::string> inner_symbols(const Instruction& instruction, const Module& body);

// The dim outside a body: itself, or a new data-dependent symbol if it has inner ones.
Dim outer_dim(Infer& c, const Dim& dim, const std::set<std::string>& inner, std::string_view hint);
Type outer_type(Infer& c, const Type& type, const std::set<std::string>& inner,
                std::string_view hint);

// Infers the body with carried parameters [first_parameter, first_parameter + count). Their types
// are the join of the operand's type and the body's result. Dims that change between iterations
// become symbols of the body.
void bind_carried(Instruction& instruction, Module& body, int first_parameter, int first_operand,
                  int first_result, int count);

}  // namespace lathe
