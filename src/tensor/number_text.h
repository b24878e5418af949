// SPDX-License-Identifier: MIT
// Numbers as strings of ONNX's string tensors, independent of the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

// The shortest string that parses to the same value: "0.1", "-3", "1e+20"; "NaN", "INF", "-INF".
std::string number_to_text(double value);
std::string number_to_text(float value);

// Parses "-1.5", ".5", "1e-5", "+INF", "nan" (any case), with blanks around. Out of range is
// infinity or zero. Other strings are an InvalidArgument.
double text_to_double(std::string_view text);
float text_to_float(std::string_view text);

// The two's complement bits of an integer in [-2^63, 2^64). Truncates other numbers ("2.7" is 2,
// "1e3" is 1000); out of range is an InvalidArgument.
uint64_t text_to_int(std::string_view text);

}  // namespace lathe
