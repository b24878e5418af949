// SPDX-License-Identifier: MIT
// Arithmetic that Python does in its own way.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

// A finite number without its fraction; an error where 64 bits do not hold it.
int64_t truncated(double number);
// round(value, digits) of a number: to the nearest, halves to even, by exact decimal digits.
Value rounded(const Value& value, int64_t digits);

}  // namespace lathe::templates
