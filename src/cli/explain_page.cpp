// SPDX-License-Identifier: MIT
#include "cli/explain_page.h"

#include <string_view>

namespace lathe::cli {
namespace {

// The build's copies of explain_page.html, .css and .js: kPage, kStyle, kScript.
#include "cli/explain_page.inc"

// JSON in a script element: HTML sees neither an end tag nor a comment.
std::string script_data(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string explain_page(const nlohmann::ordered_json& explanation) {
  std::string page;
  std::string_view rest = kPage;
  // Each mark once, in order: text that replaces one is not searched for the next.
  for (const auto& [mark, text] : {std::pair<std::string_view, std::string>{"/*STYLE*/", kStyle},
                                   {"/*DATA*/", script_data(explanation)},
                                   {"/*SCRIPT*/", kScript}}) {
    const size_t at = rest.find(mark);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + mark.size());
  }
  return page += rest;
}

}  // namespace lathe::cli
