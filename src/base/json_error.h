// SPDX-License-Identifier: MIT
// Messages for text that is not valid JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lathe {

// "unexpected '}' at line 1, column 9". `byte` is where the parser stopped, counted from 1; the
// end of the text if it is above the size.
std::string json_error(std::string_view text, size_t byte);

}  // namespace lathe
