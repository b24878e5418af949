// SPDX-License-Identifier: MIT
// Tensor memory that ends where a page begins that may not be touched.
#pragma once

#include "tensor/tensor.h"

namespace lathe::test {

// Uninitialised and dense; not for strings.
Tensor make_guarded_tensor(ElementType type, Dims dims);

}  // namespace lathe::test
