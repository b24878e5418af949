// SPDX-License-Identifier: MIT
// Kernels exported by the per-ISA sources of brgemm.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm.h"

namespace lathe::cpu {

extern const BrgemmKernel kBrgemmF32Avx2;
extern const BrgemmKernel kBrgemmBf16Avx2;
extern const BrgemmKernel kBrgemmU8S8Avx2;
extern const BrgemmKernel kBrgemmS8S8Avx2;
extern const BrgemmKernel kBrgemmU8S8Avx2Vnni;
extern const BrgemmKernel kBrgemmS8S8Avx2Vnni;
extern const BrgemmKernel kBrgemmF32Avx512;
extern const BrgemmKernel kBrgemmBf16Avx512;
extern const BrgemmKernel kBrgemmU8S8Avx512;
extern const BrgemmKernel kBrgemmS8S8Avx512;
extern const BrgemmKernel kBrgemmBf16Avx512Bf16;
extern const BrgemmKernel kBrgemmU8S8Avx512Vnni;
extern const BrgemmKernel kBrgemmS8S8Avx512Vnni;
extern const BrgemmKernel kBrgemmBf16Amx;
extern const BrgemmKernel kBrgemmU8S8Amx;
extern const BrgemmKernel kBrgemmS8S8Amx;

// Computes whole tiles of `rows` rows and `vectors` vectors of columns, for a call accepted by
// brgemm_pipelined.h. Returns the number of rows computed.
using PipelinedRows = int64_t (*)(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column,
                                  int vectors);
int64_t pipelined_f32_avx512(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column,
                             int vectors);
int64_t pipelined_bf16_avx512_bf16(const BrgemmCall& call, int64_t row, int64_t rows,
                                   int64_t column, int vectors);
int64_t pipelined_u8s8_avx512_vnni(const BrgemmCall& call, int64_t row, int64_t rows,
                                   int64_t column, int vectors);

}  // namespace lathe::cpu
