// SPDX-License-Identifier: MIT
// Text broken into lines, as Python's textwrap and pprint do it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

struct WrapStyle {
  int64_t width = 79;
  bool breaks_long_words = true;
  bool breaks_on_hyphens = true;
};
std::vector<std::string> wrap(std::string_view text, const WrapStyle& style);

std::string pretty(const Value& value);  // pprint.pformat(value)

}  // namespace lathe::templates
