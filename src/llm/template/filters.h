// SPDX-License-Identifier: MIT
// The filters of templates by name. The value is the first positional argument.
#pragma once

#include <span>
#include <string_view>

#include "llm/template/value.h"

namespace lathe::templates {

using Function = Value (*)(Arguments& arguments);

struct FunctionRow {
  std::string_view name;
  Function function;
};

Function find_filter(std::string_view name);  // null if there is none
// As `map` calls one: TemplateRuntimeError where there is none.
Value call_filter(const Value& name, Arguments& arguments);

// The families, one file each.
std::span<const FunctionRow> text_filters();
std::span<const FunctionRow> html_filters();
std::span<const FunctionRow> number_filters();
std::span<const FunctionRow> sequence_filters();
std::span<const FunctionRow> selection_filters();
std::span<const FunctionRow> order_filters();
std::span<const FunctionRow> layout_filters();

}  // namespace lathe::templates
