// SPDX-License-Identifier: MIT
// Upper and lower case of UTF-8 strings: Latin, Greek, Cyrillic and Armenian letters that map one
// to one, independent of the locale. Other characters and invalid bytes stay unchanged.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

std::string to_lower_case(std::string_view text);
std::string to_upper_case(std::string_view text);

}  // namespace lathe
