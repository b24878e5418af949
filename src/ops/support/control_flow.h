// SPDX-License-Identifier: MIT
// What if, loop and scan share: typing their bodies, and types that leave a body.
#pragma once

#include <set>
#include <string>

#include "ir/infer.h"

namespace lathe {

// A count that an attribute states; -1 for one that no program can mean.
int count_attribute(const Instruction& instruction, std::string_view name);

// Gives parameters that stand for an operand that operand's type and symbolic values.
void bind_captures(Instruction& instruction, int body);

// Names of the symbols that mean something only inside the body: those its instructions find, and
// those of parameters that change from call to call.
std::set<std::string> inner_symbols(const Instruction& instruction, const Module& body);

// The dim as seen outside a body: itself, or a found symbol if it holds inner ones.
Dim outer_dim(Infer& c, const Dim& dim, const std::set<std::string>& inner, std::string_view hint);
Type outer_type(Infer& c, const Type& type, const std::set<std::string>& inner,
                std::string_view hint);

// Types the body's parameters [first, first + count) so that they hold both the operand's type and
// the body's result of the iteration before, and infers the body; dims that change from one
// iteration to the next become symbols of the body.
void bind_carried(Instruction& instruction, Module& body, int first_parameter, int first_operand,
                  int first_result, int count);

}  // namespace lathe
