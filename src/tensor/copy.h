// SPDX-License-Identifier: MIT
// Copies on several threads.
#pragma once

#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// As copy_elements() of tensor.h, large copies on the pool's threads (null: the caller's alone).
void copy_elements(const TensorView& from, const TensorView& to, ThreadPool* pool);

}  // namespace lathe
