// SPDX-License-Identifier: MIT
// Tensors in mapped files.
#pragma once

#include "tensor/tensor.h"

namespace lathe {

// Makes the pages of elements in a mapped file non-resident; reading them again brings them back.
void release_mapped(const Tensor& tensor);

}  // namespace lathe
