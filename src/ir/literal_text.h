// SPDX-License-Identifier: MIT
// Elements of literals as text, exact in both directions.
#pragma once

#include <cstdint>
#include <string>

#include "ir/lexer.h"
#include "tensor/tensor.h"

namespace lathe {

// "1.5, -0, inf, nan(0x7fc00001)": shortest decimals that parse back to the same bits. NaNs other
// than the default one show their bits; complex numbers are (re, im); strings are quoted.
std::string elements_text(const Tensor& tensor);

// Parses the elements of `dims`, without the braces around them. The remaining text bounds the
// allocation.
Tensor parse_elements(Lexer& lexer, ElementType type, const Dims& dims);

}  // namespace lathe
