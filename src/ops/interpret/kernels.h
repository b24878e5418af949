// SPDX-License-Identifier: MIT
// Loops over chunks of registers, one per expression op, type and set of constant operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/expr.h"

namespace lathe::interpret {

// Registers and kernels process multiples of this many elements.
inline constexpr int64_t kLanes = 16;

// out[i] = f(a[i], b[i], c[i]) for i < count, a multiple of kLanes. Unused operands are null; a
// constant operand points to one value. `out` equals an operand or overlaps none.
using Kernel = void (*)(std::byte* out, const std::byte* a, const std::byte* b, const std::byte* c,
                        int64_t count);

struct KernelKey {
  ExprOp op;    // `constant`: fills with operand a
  ExprType in;  // operand type; of select: of the last two operands
  ExprType out;
  unsigned constants;  // bit i: operand i is a constant
};

// Null if there is no such kernel.
Kernel find_portable_kernel(const KernelKey& key);
// Kernels compiled for AVX2 and FMA, which the caller has detected; null on other architectures.
Kernel find_avx2_kernel(const KernelKey& key);

}  // namespace lathe::interpret
