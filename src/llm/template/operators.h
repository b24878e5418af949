// SPDX-License-Identifier: MIT
// Python's operators over values.
#pragma once

#include "llm/template/ast.h"
#include "llm/template/value.h"

namespace lathe::templates {

Value binary(Kind kind, const Value& left, const Value& right);
Value unary(Kind kind, const Value& operand);
bool compare(Comparison comparison, const Value& left, const Value& right);
bool contains(const Value& container, const Value& item);
// left < right, for sorting; TypeError for types without an order.
bool less(const Value& left, const Value& right);

// value[start:stop:step]; the parts may be None.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);

}  // namespace lathe::templates
