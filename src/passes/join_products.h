// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Products of one value with several constant matrices, each with a constant summand per column or
// none, become one product; their results are slices of its columns.
extern const Pass join_products;

}  // namespace lathe
