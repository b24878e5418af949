// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention_rows.h"
#include "targets/cpu/kernels/attention_values_avx512.h"
#include "targets/cpu/kernels/attention_widen.h"

namespace lathe::cpu {
namespace {

// [keys / 2][value_size] pairs.
void stage_values(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size, void* to) {
  interleave_values(rows, stride, keys, value_size, static_cast<int32_t*>(to), value_size);
}

int64_t value_stride(int64_t value_size) { return value_size * 4; }

}  // namespace

const AttentionKernels& attention_bf16_avx512() {
  static constexpr AttentionKernels kKernels = {
      .bf16 = true,
      .lanes = kLanes,
      .vectors = kRowVectors,
      .size_step = 2,
      .value_step = 1,
      .key_step = 1,
      .transpose = transpose_units,
      .stage_values = stage_values,
      .value_stride = value_stride,
      .block = attend_block<PairStep>,
      .few_rows = kFewRows,
      .rows = attend_rows<PairStep, PairValues>,
      .score_fetches = score_fetches<PairStep>,
      .value_fetches = kKeyBlock / kFetchKeys,
      .widen = widen_to_bf16,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
