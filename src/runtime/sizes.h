// SPDX-License-Identifier: MIT
// Sizes of dims without a value.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/program.h"

namespace lathe {

struct SizeHints {
  int64_t variant = 0;                      // selects other, mostly unequal sizes
  std::map<std::string, int64_t> lengths;   // state lengths by symbol
  std::map<std::string, int64_t> previous;  // tried first
};

// A size for every bound symbol; those in `given` are fixed. The sizes satisfy the guards of main
// if a bounded search finds such sizes. A free size is 1.
std::map<std::string, int64_t> choose_sizes(const Program& program,
                                            const std::map<std::string, int64_t>& given,
                                            const SizeHints& hints);

// The lengths of the program's states after a run with these sizes.
std::map<std::string, int64_t> lengths_after(const Program& program,
                                             const std::map<std::string, int64_t>& sizes,
                                             const std::map<std::string, int64_t>& lengths);

}  // namespace lathe
