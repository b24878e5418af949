// SPDX-License-Identifier: MIT
// Programs with some of their dims fixed.
#pragma once

#include <map>
#include <string>

#include "ir/program.h"

namespace lathe::capi {

using FixedDims = std::map<std::string, Dim, std::less<>>;

// Replaces symbols by dims everywhere and infers all types again.
void fix_dims(Program& program, const FixedDims& fixed);

}  // namespace lathe::capi
