// SPDX-License-Identifier: MIT
// Values as text, as Python writes them.
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
// "1.5e-07" as '%.{digits}e' etc. write it; `kind` is one of e f g and their capitals.
std::string format_float(double number, char kind, int precision, bool alternate = false);
// As float(text) and int(text, base) read them; nothing where they raise ValueError.
std::optional<double> parse_float(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text, int base = 10);

std::string escape_html(std::string_view text);
// Markup of a value: escaped unless it is Markup already.
Value to_markup(const Value& value);

}  // namespace lathe::templates
