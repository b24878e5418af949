// SPDX-License-Identifier: MIT
// The tests of templates ("is defined") by name. The value is the first positional argument.
#pragma once

#include <string_view>

#include "llm/template/filters.h"

namespace lathe::templates {

Function find_test(std::string_view name);  // null if there is none
// As `select` calls one: TemplateRuntimeError where there is none.
Value call_test(const Value& name, Arguments& arguments);

}  // namespace lathe::templates
