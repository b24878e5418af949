// SPDX-License-Identifier: MIT
// Numbers as the texts of ONNX's string tensors, independent of the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

// The shortest text that reads back as the same value: "0.1", "-3", "1e+20"; "NaN", "INF", "-INF".
std::string number_to_text(double value);
std::string number_to_text(float value);

// Reads "-1.5", ".5", "1e-5", "+INF", "nan" (any case) with blanks around; out of range gives
// infinity or zero. Any other text is an InvalidArgument.
double text_to_double(std::string_view text);
float text_to_float(std::string_view text);

// The two's complement bits of a whole number in [-2^63, 2^64). Other numbers are cut to whole
// ones ("2.7" is 2, "1e3" is 1000); beyond the range is an InvalidArgument.
uint64_t text_to_int(std::string_view text);

}  // namespace lathe
