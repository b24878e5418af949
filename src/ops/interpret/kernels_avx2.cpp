// SPDX-License-Identifier: MIT
// Kernels for processors with AVX2 and FMA. Only code after the pragma is compiled for them: inline
// functions of headers are shared with all other code. GCC applies the options in force at the
// end of the file to templates, so they are not reset.
#include <type_traits>

#include "ir/expr_semantics.h"
#include "ops/interpret/kernels.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#include "ops/interpret/kernel_loops.inc"

namespace lathe::interpret {

Kernel find_avx2_kernel(const KernelKey& key) { return find(key); }

}  // namespace lathe::interpret

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

namespace lathe::interpret {

Kernel find_avx2_kernel(const KernelKey&) { return nullptr; }

}  // namespace lathe::interpret

#endif
