// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/brgemm.h"

#include "targets/cpu/kernels/brgemm_table.h"

namespace lathe::cpu {
namespace {

// By instruction set and product; one without an instruction of its own uses the set before it.
constexpr const BrgemmKernel* kKernels[kIsaCount][kProductCount] = {
    {&kBrgemmF32Avx2, &kBrgemmBf16Avx2, &kBrgemmU8S8Avx2, &kBrgemmS8S8Avx2},
    {&kBrgemmF32Avx2, &kBrgemmBf16Avx2, &kBrgemmU8S8Avx2Vnni, &kBrgemmS8S8Avx2Vnni},
    {&kBrgemmF32Avx512, &kBrgemmBf16Avx512, &kBrgemmU8S8Avx512, &kBrgemmS8S8Avx512},
    {&kBrgemmF32Avx512, &kBrgemmBf16Avx512Vnni, &kBrgemmU8S8Avx512Vnni, &kBrgemmS8S8Avx512Vnni},
    {&kBrgemmF32Avx512, &kBrgemmBf16Amx, &kBrgemmU8S8Amx, &kBrgemmS8S8Amx},
};

}  // namespace

const BrgemmKernel& brgemm_kernel(Isa isa, Product product) {
  return *kKernels[static_cast<size_t>(isa)][static_cast<size_t>(product)];
}

}  // namespace lathe::cpu
