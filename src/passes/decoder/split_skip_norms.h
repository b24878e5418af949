// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Normalisations of a sum with a product's result become a sum, which may be the product's
// epilogue, and a normalisation, which may be the prologue of the next product.
extern const Pass split_skip_norms;

}  // namespace lathe
