// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm.h"

#include "targets/cpu/kernels/gemm/brgemm_table.h"

namespace lathe::cpu {

// Absent from builds for one kind of processor.
[[gnu::weak]] extern const BrgemmKernel kBrgemmF32Avx2, kBrgemmBf16Avx2, kBrgemmU8S8Avx2,
    kBrgemmS8S8Avx2, kBrgemmU8S8Avx2Vnni, kBrgemmS8S8Avx2Vnni, kBrgemmF32Avx512, kBrgemmBf16Avx512,
    kBrgemmU8S8Avx512, kBrgemmS8S8Avx512, kBrgemmBf16Avx512Bf16, kBrgemmU8S8Avx512Vnni,
    kBrgemmS8S8Avx512Vnni, kBrgemmBf16Amx, kBrgemmU8S8Amx, kBrgemmS8S8Amx;

namespace {

// By instruction set and type. A set without its own instruction uses the previous set's kernel.
constexpr const BrgemmKernel* kKernels[kIsaCount][kGemmTypeCount] = {
    {&kBrgemmF32Avx2, &kBrgemmBf16Avx2, &kBrgemmU8S8Avx2, &kBrgemmS8S8Avx2},
    {&kBrgemmF32Avx2, &kBrgemmBf16Avx2, &kBrgemmU8S8Avx2Vnni, &kBrgemmS8S8Avx2Vnni},
    {&kBrgemmF32Avx512, &kBrgemmBf16Avx512, &kBrgemmU8S8Avx512, &kBrgemmS8S8Avx512},
    {&kBrgemmF32Avx512, &kBrgemmBf16Avx512, &kBrgemmU8S8Avx512Vnni, &kBrgemmS8S8Avx512Vnni},
    {&kBrgemmF32Avx512, &kBrgemmBf16Avx512Bf16, &kBrgemmU8S8Avx512Vnni, &kBrgemmS8S8Avx512Vnni},
    {&kBrgemmF32Avx512, &kBrgemmBf16Amx, &kBrgemmU8S8Amx, &kBrgemmS8S8Amx},
};

}  // namespace

const BrgemmKernel& brgemm_kernel(Isa isa, GemmType type) {
  return *in_build(kKernels[static_cast<size_t>(isa)][static_cast<size_t>(type)], isa);
}

// An AMX tile takes the same time however much of it is used. Below 1.5 tiles of K, with at most
// 3/4 of the area used, AVX-512 takes 0.25 to 1.0 of AMX's time. Many columns raise this to 1.4; at
// most 4 rows take 0.6 to 0.95.
Isa fastest_isa(Isa isa, GemmType type, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kMaxDecodeRows = 4, kTileElements = 64, kTileColumns = 32, kMinTileK = 96;
  if (isa != Isa::amx || !has_integer_sums(type)) return isa;
  const auto rounded = [](int64_t x, int64_t to) { return (x + to - 1) / to * to; };
  const int64_t taken = rounded(k, kTileElements) * rounded(n, kTileColumns);
  const bool stays_empty = k < kMinTileK && 4 * k * n <= 3 * taken;
  return m <= kMaxDecodeRows || stays_empty ? Isa::avx512_vnni : isa;
}

}  // namespace lathe::cpu
