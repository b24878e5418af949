// SPDX-License-Identifier: MIT
// Character properties of Python's str methods (Unicode 14, Python 3.11).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::templates {

bool is_space(char32_t character);
bool is_alphabetic(char32_t character);
bool is_decimal(char32_t character);
bool is_digit(char32_t character);
bool is_numeric(char32_t character);
bool is_alphanumeric(char32_t character);
bool is_printable(char32_t character);
bool is_lower(char32_t character);
bool is_upper(char32_t character);
bool is_title(char32_t character);
bool is_cased(char32_t character);
bool is_case_ignorable(char32_t character);
bool is_identifier_start(char32_t character);
bool is_identifier_part(char32_t character);
inline bool is_word(char32_t character) { return character == '_' || is_alphanumeric(character); }
int decimal_digit(char32_t character);  // -1 if it is not a digit

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

// Strip white space.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace lathe::templates
