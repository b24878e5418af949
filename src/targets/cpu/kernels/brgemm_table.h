// SPDX-License-Identifier: MIT
// What the units of brgemm export.
#pragma once

#include "targets/cpu/kernels/brgemm.h"

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
extern const BrgemmKernel kBrgemmBf16Avx512Vnni;
extern const BrgemmKernel kBrgemmU8S8Avx512Vnni;
extern const BrgemmKernel kBrgemmS8S8Avx512Vnni;
extern const BrgemmKernel kBrgemmBf16Amx;
extern const BrgemmKernel kBrgemmU8S8Amx;
extern const BrgemmKernel kBrgemmS8S8Amx;

}  // namespace lathe::cpu
