// SPDX-License-Identifier: MIT
// The tests of templates ("is defined") by name. The first positional argument is the value.
#pragma once

#include <string_view>

#include "llm/template/filters.h"

namespace lathe::templates {

Function find_test(std::string_view name);  // null for an unknown one
// The call of `select`: TemplateRuntimeError for an unknown test.
Value call_test(const Value& name, Arguments& arguments);

}  // namespace lathe::templates
