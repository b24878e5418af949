// SPDX-License-Identifier: MIT
#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer::unicode {
namespace {

constexpr uint32_t kBase = 45;

// The symbols are '#' to '~' without '?' and '\'.
uint32_t digit(char symbol) {
  const auto c = static_cast<unsigned char>(symbol);
  return c - 35u - (c > '?') - (c > '\\');
}

}  // namespace

uint32_t NumberReader::next() {
  uint32_t value = 0, scale = 1;
  while (true) {
    const uint32_t symbol = digit(text_[at_++]);
    if (symbol < kBase) return value + symbol * scale;
    value += (symbol - kBase) * scale;
    scale *= kBase;
  }
}

int32_t NumberReader::next_signed() {
  const uint32_t value = next();
  return static_cast<int32_t>(value >> 1) ^ -static_cast<int32_t>(value & 1);
}

CodeSet read_set(std::string_view numbers) {
  CodeSet set;
  char32_t end = 0;
  for (NumberReader reader(numbers); !reader.at_end();) {
    const char32_t first = end + reader.next();
    end = first + reader.next();
    set.push_back({first, end - 1});
  }
  return set;
}

}  // namespace lathe::tokenizer::unicode
