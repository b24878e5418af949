// SPDX-License-Identifier: MIT
// Selects the GEMMs that brgemm_pipelined_avx512.h runs. Include brgemm_tile.h first.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_table.h"
#include "targets/cpu/kernels/gemm/brgemm_tile.h"

namespace lathe::cpu {
namespace {

// Types that the processor multiplies without widening.
template <class P>
constexpr bool kHasPipelined = kRegisters == 32 && P::kNative && P::kShift == 0;
template <class P>
constexpr PipelinedRows kPipelinedRows = P::kGroup == 4   ? pipelined_u8s8_avx512_vnni
                                         : P::kGroup == 2 ? pipelined_bf16_avx512_bf16
                                                          : pipelined_f32_avx512;

constexpr int64_t kPipelinedGroups = 64;  // in K: four vectors of B for each stay in L1
constexpr int kBlockVectors = 2;          // columns per call with several blocks, at most
constexpr int64_t kPipelinedStep = 24;    // rows that hold whole tiles of every width

// Rows per tile: enough accumulators to hide the FMA latency, with registers for two tiles.
template <class P, int kVectors>
constexpr int kPipelinedTileRows = P::kGroup == 4 ? (kVectors == 4   ? 2
                                                     : kVectors == 3 ? 3
                                                     : kVectors == 2 ? 4
                                                                     : 8)
                                                  : (kVectors == 4   ? 3
                                                     : kVectors == 3 ? 4
                                                     : kVectors == 2 ? 4
                                                                     : 8);

// Groups per block; the last one may be incomplete.
template <class P>
inline int64_t groups_of_block(const BrgemmCall& call) {
  return (call.k + P::kGroup - 1) / P::kGroup;
}

template <class P>
inline bool is_pipelined(const BrgemmCall& call) {
  if (call.epilogue == nullptr || call.epilogue->simple == nullptr) return false;
  const SimpleEpilogue& e = *call.epilogue->simple;
  const bool silu = e.activation == Activation::silu && e.a == 1;
  const bool fits = !e.has_activation || e.activation == Activation::relu || silu ||
                    e.activation == Activation::hard_swish;
  if (!fits || (e.residual != nullptr && e.residual_type != e.out)) return false;
  if constexpr (P::kGroup == 2) {
    if (e.out != ElementType::bf16 || e.scale != nullptr) return false;
    // With one vector, each store writes two rows.
    const bool is_cache_line = call.columns == kLanes && call.out_stride == 2 * kLanes;
    if (call.columns <= kLanes && !is_cache_line) return false;
  } else if constexpr (P::kGroup == 1) {
    if (e.out != ElementType::f32 || e.scale != nullptr) return false;
  } else if (e.out != ElementType::i8 && e.out != ElementType::u8) {
    return false;
  }
  const int64_t groups = groups_of_block<P>(call);
  const bool is_whole = call.k % P::kGroup == 0;
  if (call.start != nullptr || call.rows < kPipelinedStep) return false;
  if (!is_whole && P::kGroup != 2) return false;
  const bool is_narrow = call.columns <= kBlockVectors * kLanes;
  if ((call.block_count > 1 || call.output_row_pitch != 0 || !is_whole) && !is_narrow) return false;
  if (call.output_row_pitch != 0) {  // whole tiles per output row
    const int height = call.columns <= kLanes ? kPipelinedTileRows<P, 1> : kPipelinedTileRows<P, 2>;
    if (call.output_row_width % height != 0) return false;
  }
  if (call.block_count < 1 || groups * call.block_count > kPipelinedGroups) return false;
  // Blocks of B must be contiguous.
  for (int64_t i = 1; i < call.block_count; ++i) {
    const auto* before = static_cast<const char*>(call.blocks[i - 1].b);
    if (call.blocks[i].b != before + groups * kGroupBytes) return false;
  }
  return true;
}

}  // namespace
}  // namespace lathe::cpu
