// SPDX-License-Identifier: MIT
// Number of random cases of a property test.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace lathe::cpu::test {

// `usual` times the environment variable TEST_CASES (default 1); at least one.
inline int64_t cases(int64_t usual) {
  const char* text = std::getenv("TEST_CASES");
  const double factor = text == nullptr ? 1 : std::strtod(text, nullptr);
  const auto count = static_cast<int64_t>(static_cast<double>(usual) * factor);
  return count > 0 ? count : 1;
}

// Cases per kernel; the long test run uses 10^5.
inline constexpr int64_t kUsualCases = 2000;

}  // namespace lathe::cpu::test
