// SPDX-License-Identifier: MIT
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

size_t length_of_lead(char byte) {
  const auto lead = static_cast<unsigned char>(byte);
  if (lead < 0x80) return 1;
  if (lead >= 0xf0) return lead < 0xf8 ? 4 : 1;
  if (lead >= 0xe0) return 3;
  return lead >= 0xc0 ? 2 : 1;
}

}  // namespace

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += !is_continuation(byte);
  return count;
}

char32_t next_character(std::string_view text, size_t& at) {
  const size_t size = length_of_lead(text[at]);
  const auto lead = static_cast<unsigned char>(text[at]);
  if (size == 1 || at + size > text.size()) {
    ++at;
    return lead;
  }
  char32_t character = lead & (0x7fU >> size);
  for (size_t i = 1; i < size; ++i) {
    character = (character << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
  }
  at += size;
  return character;
}

size_t previous_character(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && is_continuation(text[at]));
  return at;
}

void append_character(std::string& text, char32_t character) {
  const auto add = [&](char32_t bits) { text += static_cast<char>(bits); };
  if (character < 0x80) {
    add(character);
  } else if (character < 0x800) {
    add(0xc0 | (character >> 6));
    add(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    add(0xe0 | (character >> 12));
    add(0x80 | ((character >> 6) & 0x3f));
    add(0x80 | (character & 0x3f));
  } else {
    add(0xf0 | (character >> 18));
    add(0x80 | ((character >> 12) & 0x3f));
    add(0x80 | ((character >> 6) & 0x3f));
    add(0x80 | (character & 0x3f));
  }
}

size_t byte_of_character(std::string_view text, size_t character) {
  size_t at = 0;
  while (character > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
    --character;
  }
  return at;
}

std::string_view substring(std::string_view text, size_t length, size_t begin, size_t end) {
  if (begin >= end) return {};
  if (length == text.size()) return text.substr(begin, end - begin);
  const size_t first = byte_of_character(text, begin);
  return text.substr(first, byte_of_character(text.substr(first), end - begin));
}

std::u32string to_characters(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) characters += next_character(text, at);
  return characters;
}

std::string from_characters(std::u32string_view characters) {
  std::string text;
  text.reserve(characters.size());
  for (const char32_t character : characters) append_character(text, character);
  return text;
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = length_of_lead(text[at]);
    if (size == 1) {
      if (static_cast<unsigned char>(text[at]) >= 0x80) return at;
      ++at;
      continue;
    }
    if (at + size > text.size()) return at;
    for (size_t i = 1; i < size; ++i) {
      if (!is_continuation(text[at + i])) return at;
    }
    size_t end = at;
    const char32_t character = next_character(text, end);
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (character < kLeast[size] || character > 0x10ffff ||
        (character >= 0xd800 && character < 0xe000)) {
      return at;
    }
    at = end;
  }
  return std::string_view::npos;
}

}  // namespace lathe::templates
