// SPDX-License-Identifier: MIT
// Converts JSON to values and values to JSON.
#pragma once

#include <string>
#include <string_view>

#include "llm/template/value.h"

namespace lathe::templates {

// InvalidArgument for invalid JSON; the message names it `what`.
Value parse_json(std::string_view text, std::string_view what);

struct JsonStyle {
  bool ascii_only = false;
  bool sorts_keys = false;
  bool has_indent = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style);  // as Python's json.dumps
Value tojson_filter(Arguments& arguments);

}  // namespace lathe::templates
