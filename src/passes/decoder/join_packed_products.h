// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ir/pass.h"

namespace lathe {

// Products of one value become one product: query, keys and values of sequence attention, or query
// and keys, and two whose results one elementwise instruction alone reads; all with a constant
// summand per column, or none. Their weights are matrices of 16 bits, or
// blocks of one type, which kernels pack from the constants where they lie, as they do those
// joined. `packs`: the kernel of the product packs so.
Pass join_packed_products(std::function<bool(const Instruction& product)> packs);

}  // namespace lathe
