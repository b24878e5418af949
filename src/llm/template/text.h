// SPDX-License-Identifier: MIT
// Converts values to text by Python's rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "llm/template/value.h"

namespace lathe::templates {

std::string str(const Value& value);    // str(value)
std::string repr(const Value& value);   // repr(value)
std::string ascii(const Value& value);  // ascii(value)
void append_str(std::string& text, const Value& value);
void append_repr(std::string& text, const Value& value);

std::string float_repr(double number);
// C's '%.{digits}e' etc.; `kind` is one of e, f, g, E, F, G.
std::string format_float(double number, char kind, int precision, bool alternate = false);
// Python's float(text) and int(text, base); nullopt instead of ValueError.
std::optional<double> parse_float(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text, int base = 10);

std::string escape_html(std::string_view text);
// A value as Markup: escaped unless it is Markup.
Value to_markup(const Value& value);

}  // namespace lathe::templates
