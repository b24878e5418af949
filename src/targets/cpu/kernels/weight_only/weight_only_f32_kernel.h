// SPDX-License-Identifier: MIT
// Builds the table of kernels without dot products of integers.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_f32.h"
#include "targets/cpu/kernels/weight_only/weight_only_fit.h"
#include "targets/cpu/kernels/weight_only/weight_only_quantise.h"

namespace lathe::cpu {
namespace {

template <int kBits>
constexpr WeightOnlyF32Table::GemvsOfBits f32_gemvs() {
  return {&f32_gemv<kBits, 1>, &f32_gemv<kBits, 2>, &f32_gemv<kBits, 3>, &f32_gemv<kBits, 4>};
}

constexpr WeightOnlyF32Table make_f32_table() {
  WeightOnlyF32Table table;
  table.quantise = &quantise_rows;
  table.fit = &fit_columns;
  table.gemv = {f32_gemvs<2>(), f32_gemvs<3>(), f32_gemvs<4>(), f32_gemvs<8>()};
  table.unpack = {&unpack_f32<2>, &unpack_f32<3>, &unpack_f32<4>, &unpack_f32<8>};
  table.gemm = &f32_gemm;
  return table;
}

}  // namespace
}  // namespace lathe::cpu
