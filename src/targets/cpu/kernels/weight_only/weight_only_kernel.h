// SPDX-License-Identifier: MIT
// Builds the kernel table of an instruction set. Its unit includes this file after a simd header.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"
#include "targets/cpu/kernels/weight_only/weight_only_store.h"
#if defined(__AVX512F__)
#include "targets/cpu/kernels/weight_only/weight_only_gemm_packed.h"
#else
#include "targets/cpu/kernels/weight_only/weight_only_gemm.h"
#endif

namespace lathe::cpu {
namespace {

constexpr int kMaxGemvRows = kLanes == 16 ? 8 : 4;

template <int kBits, int kRows>
constexpr auto gemv_kernel() -> decltype(&multiply_gemv_rows<kBits, 1>) {
  if constexpr (kRows <= kMaxGemvRows) return &multiply_gemv_rows<kBits, kRows>;
  return nullptr;
}

template <int kBits>
constexpr WeightOnlyGemvs::value_type gemv_kernels() {
  return {gemv_kernel<kBits, 1>(), gemv_kernel<kBits, 2>(), gemv_kernel<kBits, 3>(),
          gemv_kernel<kBits, 4>(), gemv_kernel<kBits, 5>(), gemv_kernel<kBits, 6>(),
          gemv_kernel<kBits, 7>(), gemv_kernel<kBits, 8>()};
}
constexpr WeightOnlyGemvs make_gemvs() {
  return {gemv_kernels<2>(), gemv_kernels<3>(), gemv_kernels<4>(), gemv_kernels<8>()};
}

template <int kBits>
constexpr void fill(WeightOnlyTable& table, size_t at) {
#if defined(__AVX512F__)
  table.packed_gemm[at] = &multiply_packed<kBits>;
#else
  table.unpack[at] = &unpack_codes<kBits>;
#endif
}

constexpr WeightOnlyTable make_table(const WeightOnlyGemvs& gemvs) {
  WeightOnlyTable table;
#if defined(__AVX512F__)
  table.f32 = &kWeightOnlyF32Avx512;
#else
  table.f32 = &kWeightOnlyF32Avx2;
#endif
  table.max_gemv_rows = kMaxGemvRows;
  table.gemv = &gemvs;
  table.round_to_bf16 = &round_to_bf16;
  fill<2>(table, 0);
  fill<3>(table, 1);
  fill<4>(table, 2);
  fill<8>(table, 3);
#if defined(__AVX512F__)
  table.minimums_gemm = {&multiply_packed<2, true>, nullptr, &multiply_packed<4, true>,
                         &multiply_packed<8, true>};
#endif
  table.store_f32 = &store_rows<float>;
  table.store_f16 = &store_rows<F16>;
  table.store_bf16 = &store_rows<Bf16>;
#if !defined(__AVX512F__)
  table.gemm = &multiply_gemm<false>;
  table.gemm_with_minimums = &multiply_gemm<true>;
#endif
  return table;
}

}  // namespace
}  // namespace lathe::cpu
