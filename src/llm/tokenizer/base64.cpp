// SPDX-License-Identifier: MIT
#include "llm/tokenizer/base64.h"

#include <array>
#include <cstdint>

#include "base/error.h"

namespace lathe::tokenizer {
namespace {

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}

}  // namespace

std::string decode_base64(std::string_view text, std::string_view where) {
  static constexpr std::array<int8_t, 256> kValues = make_values();
  const size_t size = text.size();
  check(size % 4 == 0, ErrorKind::invalid_model,
        "{} has {} characters of base64, expected a multiple of 4", where, size);
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(size / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < size - padding; ++i) {
    const int value = kValues[static_cast<uint8_t>(text[i])];
    check(value >= 0, ErrorKind::invalid_model, "{}: byte {} is not a base64 digit: '{}'", where, i,
          escape(text.substr(i, 1)));
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 > 0) bytes.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4))));
  }
  return bytes;
}

}  // namespace lathe::tokenizer
