// SPDX-License-Identifier: MIT
// A hash function for short strings.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace lathe::tokenizer {

// Random per process, so that a file cannot cause collisions.
uint64_t hash_seed();

namespace detail {
inline uint64_t load64(const char* p) {
  uint64_t value;
  std::memcpy(&value, p, 8);
  return value;
}
inline uint64_t load32(const char* p) {
  uint32_t value;
  std::memcpy(&value, p, 4);
  return value;
}
// The exclusive or of the halves of a 128-bit product.
inline uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
}  // namespace detail

inline uint64_t hash_bytes(std::string_view text, uint64_t seed) {
  const char* p = text.data();
  const size_t n = text.size();
  uint64_t a = 0;
  uint64_t b = 0;
  if (n > 16) return XXH3_64bits_withSeed(p, n, seed);
  if (n >= 8) {
    a = detail::load64(p);
    b = detail::load64(p + n - 8);
  } else if (n >= 4) {
    a = detail::load32(p);
    b = detail::load32(p + n - 4);
  } else if (n > 0) {
    a = static_cast<uint8_t>(p[0]) | static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 |
        static_cast<uint64_t>(static_cast<uint8_t>(p[n - 1])) << 16;
  }
  return detail::fold(a ^ seed ^ n, b ^ 0x9E3779B97F4A7C15u ^ (seed << 32 | seed >> 32));
}

inline uint64_t hash_number(uint64_t value, uint64_t seed) {
  return detail::fold(value ^ seed, 0x9E3779B97F4A7C15u);
}

}  // namespace lathe::tokenizer
