// SPDX-License-Identifier: MIT
// Channels-last operands of convolutions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "bench/kernels/memory.h"
#include "tensor/element_type.h"

namespace lathe::bench {

inline void put(std::byte* to, ElementType type, float value) {
  const auto write = [&](auto element) { std::memcpy(to, &element, sizeof element); };
  switch (type) {
    case ElementType::bf16:  // exact: the values have few bits
      return write(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    case ElementType::u8:
      return write(static_cast<uint8_t>(value));
    case ElementType::i8:
      return write(static_cast<int8_t>(value));
    default:
      return write(value);
  }
}

inline float get(const std::byte* from, ElementType type) {
  const auto read = [&]<class T>(T element) {
    std::memcpy(&element, from, sizeof element);
    return element;
  };
  switch (type) {
    case ElementType::bf16:
      return std::bit_cast<float>(uint32_t{read(uint16_t{})} << 16);
    case ElementType::u8:
      return read(uint8_t{});
    case ElementType::i8:
      return read(int8_t{});
    default:
      return read(float{});
  }
}

// Channels-last offset of element i of [n, channels, positions].
inline int64_t last(int64_t i, int64_t channels, int64_t positions) {
  const int64_t channel = i / positions % channels;
  return (i / positions / channels * positions + i % positions) * channels + channel;
}

template <class At>
void fill(std::byte* to, ElementType type, const std::vector<float>& values, At&& at) {
  for (size_t i = 0; i < values.size(); ++i) {
    put(to + bytes_for(type, at(static_cast<int64_t>(i))), type, values[i]);
  }
}

}  // namespace lathe::bench
