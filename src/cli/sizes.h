// SPDX-License-Identifier: MIT
// Sizes for dims that nobody gave.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/program.h"

namespace lathe::cli {

struct SizeHints {
  int64_t variant = 0;                      // other sizes, mostly unequal ones
  std::map<std::string, int64_t> lengths;   // of states, by symbol
  std::map<std::string, int64_t> previous;  // tried first
};

// A size for every bound symbol, `given` ones kept, such that the requirements of main hold where
// such sizes are found quickly; 1 where they may be anything.
std::map<std::string, int64_t> choose_sizes(const Program& program,
                                            const std::map<std::string, int64_t>& given,
                                            const SizeHints& hints);

// The lengths of the program's states after a run with these sizes.
std::map<std::string, int64_t> lengths_after(const Program& program,
                                             const std::map<std::string, int64_t>& sizes,
                                             const std::map<std::string, int64_t>& lengths);

}  // namespace lathe::cli
