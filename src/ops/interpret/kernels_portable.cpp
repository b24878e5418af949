// SPDX-License-Identifier: MIT
#include <type_traits>

#include "ir/expr_semantics.h"
#include "ops/interpret/kernels.h"

#include "ops/interpret/kernel_loops.inc"

namespace lathe::interpret {

Kernel find_portable_kernel(const KernelKey& key) { return find(key); }

}  // namespace lathe::interpret
