// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lathe::llm {

// Detects accidental damage only. Equal on every machine.
inline uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t sum = 0x9e3779b97f4a7c15u ^ bytes.size();
  const auto mix = [&](uint64_t word) {
    sum = (sum ^ word) * 0xd6e8feb86659fd93u;
    sum ^= sum >> 32;
  };
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8; ++i) word |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
    mix(word);
  }
  for (; at < bytes.size(); ++at) mix(static_cast<uint64_t>(bytes[at]));
  return sum;
}

}  // namespace lathe::llm
