// SPDX-License-Identifier: MIT
#include "llm/template/filters.h"

#include <map>

#include "llm/template/budget.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

std::map<std::string_view, Function> all_filters() {
  std::map<std::string_view, Function> all;
  for (const auto rows : {text_filters(), html_filters(), number_filters(), sequence_filters(),
                          selection_filters(), order_filters(), layout_filters()}) {
    for (const FunctionRow& row : rows) all.emplace(row.name, row.function);
  }
  return all;
}

constexpr std::string_view kLeftOut[] = {"pprint", "striptags", "urlize", "wordwrap", "xmlattr"};

}  // namespace

void check_implemented(std::string_view name) {
  for (const std::string_view filter : kLeftOut) {
    if (filter == name) raise(Exception::unsupported, "the filter '{}' is not supported", name);
  }
}

Function find_filter(std::string_view name) {
  static const std::map<std::string_view, Function> filters = all_filters();
  const auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

Value call_filter(const Value& name, Arguments& arguments) {
  const Level level;
  const Function function = name.is_string() ? find_filter(name.text()) : nullptr;
  if (function == nullptr) {
    if (name.is_string()) check_implemented(name.text());
    std::string text = fmt::format("No filter named {}.", repr(name));
    if (name.is_undefined()) {
      text += fmt::format(" ({}; did you forget to quote the callable name?)",
                          name.undefined().message());
    }
    raise_text(Exception::template_runtime, std::move(text));
  }
  return function(arguments);
}

}  // namespace lathe::templates
