// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_decode_paged_avx512.h"
#include "targets/cpu/kernels/attention/attention_values_avx512.h"
#include "targets/cpu/kernels/attention/attention_widen.h"

namespace lathe::cpu {

const AttentionKernels& attention_bf16_avx512() {
  static constexpr AttentionKernels kKernels = {
      .bf16 = true,
      .lanes = kLanes,
      .vectors = kRowVectors,
      .size_step = 2,
      .value_step = 1,
      .key_step = 1,
      .transpose = transpose_units,
      .stage_values = stage_pairs,
      .value_stride = pairs_stride,
      .block = attend_block<PairStep>,
      .few_rows = kMaxDecodeRows,
      .rows_feed = true,
      .few_pitch = kRowsAtOnce,
      .rows = attend_rows<PairStep, PairValues>,
      .run_fits = run_fits<PairStep>,
      .run_keys = run_keys<PairStep>,
      .run_values = run_values<PairStep, PairValues>,
      .run_pages = run_pages<PairStep, PairValues>,
      .score_fetches = score_fetches,
      .value_fetches = kValueFetches,
      .widen = widen_to_bf16,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
