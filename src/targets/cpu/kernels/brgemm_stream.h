// SPDX-License-Identifier: MIT
// Which products go through brgemm_stream_avx512.h. Include brgemm_tile.h first.
#pragma once

#include "targets/cpu/kernels/brgemm_table.h"
#include "targets/cpu/kernels/brgemm_tile.h"

namespace lathe::cpu {
namespace {

// Bytes and bf16 that the processor multiplies.
template <class P>
constexpr bool kStreams = kRegisters == 32 && P::kNative && P::kShift == 0 && P::kGroup > 1;
template <class P>
constexpr StreamRows kStreamRows =
    P::kGroup == 4 ? stream_u8s8_avx512_vnni : stream_bf16_avx512_vnni;

constexpr int64_t kStreamGroups = 64;  // of k: four vectors of each stay in the first cache
constexpr int64_t kStreamStep = 24;    // rows that are whole tiles of any width

template <class P>
inline bool streams(const BrgemmCall& call) {
  if (call.epilogue == nullptr || call.epilogue->simple == nullptr) return false;
  const SimpleEpilogue& e = *call.epilogue->simple;
  const bool silu = e.activation == Activation::silu && e.a == 1;
  const bool fits = !e.has_activation || e.activation == Activation::relu || silu ||
                    e.activation == Activation::hard_swish;
  if (!fits || (e.residual != nullptr && e.residual_type != e.out)) return false;
  if constexpr (P::kGroup == 2) {
    // A tile of one vector waits for numbers of A; others have higher ones.
    if (e.out != ElementType::bf16 || e.scale != nullptr || call.columns <= kLanes) return false;
  } else if (e.out != ElementType::i8 && e.out != ElementType::u8) {
    return false;
  }
  return call.start == nullptr && call.block_count == 1 && call.k % P::kGroup == 0 &&
         call.k / P::kGroup <= kStreamGroups && call.rows >= kStreamStep;
}

}  // namespace
}  // namespace lathe::cpu
