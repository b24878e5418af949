// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Lookups in a table that is also quantised or split for a product (a tied embedding) read the
// product's weights, which are then the only ones that are held.
extern const Pass join_lookups;

}  // namespace lathe
