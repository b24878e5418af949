// SPDX-License-Identifier: MIT
// Arithmetic by Python's rules.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

// Truncates a finite number; an error if the result needs more than 64 bits.
int64_t truncated(double number);
// Python's round(value, digits): half to even, on exact decimal digits.
Value rounded(const Value& value, int64_t digits);

}  // namespace lathe::templates
