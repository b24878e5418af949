// SPDX-License-Identifier: MIT
// Prints expressions of formulas as device code.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/expr.h"

namespace lathe::gpu {

// The name of an element's type in device code: "f16", "i64"; empty: it has none.
std::string_view type_name(ElementType type);
std::string_view type_name(ExprType type);
// Statements that compute `expr` from the named values of its arguments and define the constant
// `result`. Other names begin with it.
std::string print_expression(const Expr& expr, std::span<const std::string> arguments,
                             const std::string& result);

}  // namespace lathe::gpu
