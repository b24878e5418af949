// SPDX-License-Identifier: MIT
// How many random cases a property test runs.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace lathe::cpu::test {

// `usual` ones times TEST_CASES, which the long form sets; 1 if it is not set. At least one.
inline int64_t cases(int64_t usual) {
  const char* text = std::getenv("TEST_CASES");
  const double factor = text == nullptr ? 1 : std::strtod(text, nullptr);
  const auto count = static_cast<int64_t>(static_cast<double>(usual) * factor);
  return count > 0 ? count : 1;
}

// Of every kind of kernel; the long form runs 10^5.
inline constexpr int64_t kUsualCases = 2000;

}  // namespace lathe::cpu::test
