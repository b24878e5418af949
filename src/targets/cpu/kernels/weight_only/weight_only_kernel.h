// SPDX-License-Identifier: MIT
// The table of an instruction set, for its unit to define after a simd header.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_f32.h"
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

constexpr int kMostRows = kLanes == 16 ? 8 : 4;

template <int kBits, int kRows>
constexpr auto rows_kernel() -> decltype(&multiply_rows<kBits, 1>) {
  if constexpr (kRows <= kMostRows) return &multiply_rows<kBits, kRows>;
  return nullptr;
}

template <int kBits>
constexpr void fill(WeightOnlyTable& table, size_t at) {
  table.rows[at] = {rows_kernel<kBits, 1>(), rows_kernel<kBits, 2>(), rows_kernel<kBits, 3>(),
                    rows_kernel<kBits, 4>(), rows_kernel<kBits, 5>(), rows_kernel<kBits, 6>(),
                    rows_kernel<kBits, 7>(), rows_kernel<kBits, 8>()};
  table.float_rows[at] = {&multiply_float_rows<kBits, 1>, &multiply_float_rows<kBits, 2>,
                          &multiply_float_rows<kBits, 3>, &multiply_float_rows<kBits, 4>};
#if defined(__AVX512F__)
  table.packed_tiles[at] = &multiply_packed<kBits>;
#else
  table.unpack[at] = &unpack_codes<kBits>;
#endif
  table.unpack_floats[at] = &unpack_floats<kBits>;
}

constexpr WeightOnlyTable make_table() {
  WeightOnlyTable table;
  table.most_rows = kMostRows;
  table.quantise = &quantise_rows;
  table.round_to_bf16 = &round_to_bf16;
  fill<2>(table, 0);
  fill<3>(table, 1);
  fill<4>(table, 2);
  fill<8>(table, 3);
  table.store_f32 = &store_rows<float>;
  table.store_f16 = &store_rows<F16>;
  table.store_bf16 = &store_rows<Bf16>;
#if !defined(__AVX512F__)
  table.tiles = &multiply_tiles;
#endif
  table.float_tiles = &float_tiles;
  return table;
}

}  // namespace
}  // namespace lathe::cpu
