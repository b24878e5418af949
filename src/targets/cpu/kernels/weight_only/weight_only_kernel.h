// SPDX-License-Identifier: MIT
// Builds the kernel table of an instruction set. Its unit includes this file after a simd header.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_f32.h"
#include "targets/cpu/kernels/weight_only/weight_only_fit.h"
#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"
#include "targets/cpu/kernels/weight_only/weight_only_quantise.h"
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
constexpr void fill(WeightOnlyTable& table, size_t at) {
  table.gemv[at] = {gemv_kernel<kBits, 1>(), gemv_kernel<kBits, 2>(), gemv_kernel<kBits, 3>(),
                    gemv_kernel<kBits, 4>(), gemv_kernel<kBits, 5>(), gemv_kernel<kBits, 6>(),
                    gemv_kernel<kBits, 7>(), gemv_kernel<kBits, 8>()};
  table.f32_gemv[at] = {&f32_gemv<kBits, 1>, &f32_gemv<kBits, 2>, &f32_gemv<kBits, 3>,
                        &f32_gemv<kBits, 4>};
#if defined(__AVX512F__)
  table.packed_gemm[at] = &multiply_packed<kBits>;
#else
  table.unpack[at] = &unpack_codes<kBits>;
#endif
  table.unpack_f32[at] = &unpack_f32<kBits>;
}

constexpr WeightOnlyTable make_table() {
  WeightOnlyTable table;
  table.max_gemv_rows = kMaxGemvRows;
  table.quantise = &quantise_rows;
  table.fit = &fit_columns;
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
  table.f32_gemm = &f32_gemm;
  return table;
}

}  // namespace
}  // namespace lathe::cpu
