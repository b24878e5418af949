// SPDX-License-Identifier: MIT
// "{0.name!r:>10}".format(…) by the sandbox's rules, and format() of values.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

// str.format
Value str_format(const Value& format, Arguments& arguments);
// str.format_map
Value str_format_map(const Value& format, Arguments& arguments);
// format(value, specification)
std::string format_value(const Value& value, std::string_view specification);

}  // namespace lathe::templates
