// SPDX-License-Identifier: MIT
// The filters of templates by name. The first positional argument is the value.
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

Function find_filter(std::string_view name);  // null for an unknown one
// NotImplementedError for a filter of Jinja that this engine omits.
void check_implemented(std::string_view name);
// The call of `map`: TemplateRuntimeError for an unknown filter.
Value call_filter(const Value& name, Arguments& arguments);

// One table per file.
std::span<const FunctionRow> text_filters();
std::span<const FunctionRow> html_filters();
std::span<const FunctionRow> number_filters();
std::span<const FunctionRow> sequence_filters();
std::span<const FunctionRow> selection_filters();
std::span<const FunctionRow> order_filters();
std::span<const FunctionRow> layout_filters();

}  // namespace lathe::templates
