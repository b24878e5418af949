// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Literals that bodies of control flow capture become literals of the body, so that its
// instructions fold and pack them.
extern const Pass sink_literals;

}  // namespace lathe
