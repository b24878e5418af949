// SPDX-License-Identifier: MIT
// Elements of literals as text, exact in both directions.
#pragma once

#include <cstdint>
#include <string>

#include "ir/lexer.h"
#include "tensor/tensor.h"

namespace lathe {

// "1.5, -0, inf, nan(0x7fc00001)": the shortest decimals that read back as the same bits; NaNs
// other than the default one by their bits; complex as (re, im), strings quoted.
std::string elements_text(const Tensor& tensor);

// Reads as many elements as `dims` ask for, without the braces around them. The lexer's remaining
// text bounds what is allocated.
Tensor parse_elements(Lexer& lexer, ElementType type, const Dims& dims);

}  // namespace lathe
