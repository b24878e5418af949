// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Query, keys and values of sequence attention that are products of one value, all or none of them
// with a bias, become one product.
extern const Pass join_attention_products;

}  // namespace lathe
