// SPDX-License-Identifier: MIT
// Byte format of saved sequences: numbers of 64 bits, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lathe::llm {

class ByteWriter {
 public:
  void number(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::span<std::byte> room(int64_t size) {
    number(static_cast<uint64_t>(size));
    const size_t at = bytes.size();
    bytes.resize(at + static_cast<size_t>(size));
    return std::span(bytes).subspan(at);
  }
  std::vector<std::byte> bytes;
};

// InvalidArgument for reads past the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes), size_(bytes.size()) {}
  uint64_t number(std::string_view what) {
    const std::span<const std::byte> own = take(8, what);
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(own[i]) << (8 * i);
    return value;
  }
  int64_t count(std::string_view what, int64_t most) {
    const uint64_t value = number(what);
    check(value <= static_cast<uint64_t>(most), ErrorKind::invalid_argument,
          "field '{}' of a saved sequence is {}, expected at most {}", value, what, most);
    return static_cast<int64_t>(value);
  }
  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    check(size <= rest_.size(), ErrorKind::invalid_argument,
          "a saved sequence ends in its {}: {} of {} bytes are left, expected {}", what,
          rest_.size(), size_, size);
    const std::span<const std::byte> own = rest_.first(static_cast<size_t>(size));
    rest_ = rest_.subspan(static_cast<size_t>(size));
    return own;
  }
  size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  size_t size_;
};

}  // namespace lathe::llm
