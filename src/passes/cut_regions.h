// SPDX-License-Identifier: MIT
// Cuts regions in two, where runs of the program were measured to be faster so.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "ir/pass.h"

namespace lathe {

// The form of a region that is used, an index of `forms`: the first one is the whole region, each
// other one cuts it behind a step. `region` is equal for equal regions.
using ChooseForm =
    std::function<size_t(const std::string& region, std::span<const std::string> forms)>;

// Regions may be cut around what is not elementwise, else at the largest value, where a target has
// kernels for both parts (`supports`: empty) and where memory holds the value as registers do. No
// bits change. Without `choose`, all stay whole.
Pass cut_regions(std::function<std::string(const Instruction&)> supports, ChooseForm choose);

}  // namespace lathe
