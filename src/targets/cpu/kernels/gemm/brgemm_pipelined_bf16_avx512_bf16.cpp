// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm_pipelined_avx512.h"

namespace lathe::cpu {

int64_t pipelined_bf16_avx512_bf16(const BrgemmCall& call, int64_t row, int64_t rows,
                                   int64_t column, int vectors) {
  return pipelined_any<GemmBf16>(call, row, rows, column, vectors);
}

}  // namespace lathe::cpu
