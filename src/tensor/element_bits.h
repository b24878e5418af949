// SPDX-License-Identifier: MIT
// Reads and writes of single elements of any alignment, also of packed types.
#pragma once

#include <cstdint>
#include <cstring>

namespace lathe {

template <class T>
T read_element(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <class T>
void write_element(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}

// Reads the bits of a packed element, right-aligned.
template <int kBits>
uint8_t read_bits(const void* data, int64_t index) {
  const auto i = static_cast<uint64_t>(index) * kBits;
  const int byte = static_cast<const uint8_t*>(data)[i / 8];
  return static_cast<uint8_t>((byte >> (i % 8)) & ((1 << kBits) - 1));
}

// Writes the low `bits` of `value` to a packed element.
inline void write_bits(int bits, void* data, int64_t index, unsigned value) {
  const auto i = static_cast<uint64_t>(index) * static_cast<uint64_t>(bits);
  const unsigned mask = ((1u << bits) - 1) << (i % 8);
  uint8_t& byte = static_cast<uint8_t*>(data)[i / 8];
  byte = static_cast<uint8_t>((byte & ~mask) | ((value << (i % 8)) & mask));
}

// Sign-extends a right-aligned two's complement integer.
inline int sign_extend(int bits, uint8_t value) {
  const int sign = 1 << (bits - 1);
  return (value ^ sign) - sign;
}

}  // namespace lathe
