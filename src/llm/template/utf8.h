// SPDX-License-Identifier: MIT
// Characters of UTF-8 text, which may have lone surrogates, as Python's strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::templates {

size_t count_characters(std::string_view text);
// Returns the character at `at` and moves `at` behind it; an invalid byte counts as a character.
char32_t next_character(std::string_view text, size_t& at);
// The start of the character before a byte.
size_t previous_character(std::string_view text, size_t at);
void append_character(std::string& text, char32_t character);
// The offset of the character with an index; the text's size if it has fewer.
size_t byte_of_character(std::string_view text, size_t character);
// For a text of `length` characters; constant time for ASCII.
std::string_view substring(std::string_view text, size_t length, size_t begin, size_t end);
std::u32string to_characters(std::string_view text);
std::string from_characters(std::u32string_view characters);
// The offset of the first invalid byte, or npos. Surrogates are invalid.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lathe::templates
