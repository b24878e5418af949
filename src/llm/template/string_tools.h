// SPDX-License-Identifier: MIT
// Helpers of string methods and filters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

enum class Padding { left, right, center };  // the text's alignment

std::string pad(const String& text, int64_t width, char32_t fill, Padding padding);
// Replaces up to `count` times, or all if it is negative.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count);
// Strips white space if `characters` is missing or None, else the characters of the string.
std::string_view strip(std::string_view text, const Value& characters, bool at_left, bool at_right);
// Splits like str.splitlines, at all of Unicode's line ends.
std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends);

}  // namespace lathe::templates
