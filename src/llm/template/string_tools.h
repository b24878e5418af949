// SPDX-License-Identifier: MIT
// What string methods and filters share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

enum class Padding { left, right, center };  // where the text stands

std::string pad(const String& text, int64_t width, char32_t fill, Padding padding);
// Up to `count` times, or all for a negative one.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count);
// `characters`: missing or None for white space, else any of the characters of a text.
std::string_view strip(std::string_view text, const Value& characters, bool at_left, bool at_right);
// As str.splitlines breaks it: at all of Unicode's line ends.
std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends);

}  // namespace lathe::templates
