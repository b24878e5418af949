// SPDX-License-Identifier: MIT
// Cuts regions in two, where runs of the program were measured to be faster so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/pass.h"

namespace lathe {

// Equal regions of a program.
struct RegionForms {
  std::string region;              // their steps, with sizes
  std::vector<std::string> forms;  // the first one is the whole region, the others cut it
  int64_t bytes = 0;               // that their steps would move as launches of their own
};
// The form that is used, an index of `forms`.
using ChooseForm = std::function<size_t(const RegionForms& found)>;
using SymbolSizes = std::map<std::string, int64_t>;  // of symbols by name

// Regions may be cut around what is not elementwise, else at the largest value, where a target has
// kernels for both parts (`supports`: empty) and where memory holds the value as registers do. No
// bits change. Without `choose`, all stay whole. Regions are equal if they are so for `sizes`.
Pass cut_regions(std::function<std::string(const Instruction&)> supports, ChooseForm choose,
                 const SymbolSizes& sizes = {});

}  // namespace lathe
