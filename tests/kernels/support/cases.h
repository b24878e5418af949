// SPDX-License-Identifier: MIT
// How many random cases a property test runs.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace lathe::cpu::test {

// `usual` ones times TEST_CASES, which the long form sets; 1 if it is not set.
inline int64_t cases(int64_t usual) {
  const char* text = std::getenv("TEST_CASES");
  const int64_t factor = text == nullptr ? 1 : std::strtoll(text, nullptr, 10);
  return usual * (factor > 0 ? factor : 1);
}

}  // namespace lathe::cpu::test
