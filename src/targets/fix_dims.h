// SPDX-License-Identifier: MIT
// Programs with some of their dims fixed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace lathe {

using FixedDims = std::map<std::string, Dim, std::less<>>;

// Replaces symbols by dims everywhere and infers all types again.
void fix_dims(Program& program, const FixedDims& fixed);

// The sizes of one dim that the caller states.
struct DimRange {
  std::string name;
  Range range;
  std::vector<int64_t> preferred;
};
// Fixes the dims whose range is one size and bounds the others. InvalidArgument for unknown names.
void set_dims(Program& program, const std::vector<DimRange>& dims);

}  // namespace lathe
