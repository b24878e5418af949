// SPDX-License-Identifier: MIT
// Loops over chunks of registers, one per expression op, type and choice of constant operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/expr.h"

namespace lathe::interpret {

// Registers hold a multiple of this many elements, and kernels always compute whole multiples.
inline constexpr int64_t kLanes = 16;

// out[i] = f(a[i], b[i], c[i]) for i < count, a multiple of kLanes. Unused operands are null;
// constant operands point at one value. `out` overlaps no operand, or is one of them exactly.
using Kernel = void (*)(std::byte* out, const std::byte* a, const std::byte* b, const std::byte* c,
                        int64_t count);

struct KernelKey {
  ExprOp op;    // `constant`: fills with operand a
  ExprType in;  // type of the operands (of select: of the last two)
  ExprType out;
  unsigned constants;  // bit i: operand i is a constant
};

// Null if there is no such op.
Kernel find_portable_kernel(const KernelKey& key);
// The same functions compiled for AVX2 and FMA, which the caller has found the processor to have;
// null on other architectures.
Kernel find_avx2_kernel(const KernelKey& key);

}  // namespace lathe::interpret
