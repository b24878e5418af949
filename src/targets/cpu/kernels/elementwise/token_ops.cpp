// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/token_ops.h"

#include "targets/cpu/kernels/elementwise/token_ops_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const TokenOps kTokenOpsAvx2, kTokenOpsAvx512;

const TokenOps& token_ops(Isa isa) {
  return *in_build(isa >= Isa::avx512 ? &kTokenOpsAvx512 : &kTokenOpsAvx2, isa);
}

}  // namespace lathe::cpu
