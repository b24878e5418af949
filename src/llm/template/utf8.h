// SPDX-License-Identifier: MIT
// Characters of UTF-8 text, which may hold lone surrogates as Python's strings may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::templates {

size_t count_characters(std::string_view text);
// The character at a byte, which is moved behind it; bytes that are none count one by one.
char32_t next_character(std::string_view text, size_t& at);
// The start of the character before a byte.
size_t previous_character(std::string_view text, size_t at);
void append_character(std::string& text, char32_t character);
// Where the character of a number begins; the end of the text if there are fewer.
size_t byte_of_character(std::string_view text, size_t character);
// Of `length` characters; cheap where the text is ASCII.
std::string_view substring(std::string_view text, size_t length, size_t begin, size_t end);
std::u32string to_characters(std::string_view text);
std::string from_characters(std::u32string_view characters);
// The offset of the first byte that is no UTF-8 text, or npos. Surrogates are none.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lathe::templates
