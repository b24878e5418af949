// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_decode_paged_avx512.h"
#include "targets/cpu/kernels/attention/attention_widen.h"

namespace lathe::cpu {

const AttentionKernels& attention_f32_avx512() {
  static constexpr AttentionKernels kKernels = {
      .bf16 = false,
      .lanes = kLanes,
      .vectors = kRowVectors,
      .size_step = 1,
      .value_step = 1,
      .key_step = 1,
      .transpose = transpose_units,
      .stage_values = nullptr,
      .value_stride = nullptr,
      .block = attend_block<SingleStep>,
      .few_rows = kMaxDecodeRows,
      .rows_feed = true,
      .few_pitch = kRowsAtOnce,
      .rows = attend_rows<SingleStep, SingleValues>,
      .run_fits = run_fits<SingleStep>,
      .run_keys = run_keys<SingleStep>,
      .run_values = run_values<SingleStep, SingleValues>,
      .run_pages = run_pages<SingleStep, SingleValues>,
      .score_fetches = score_fetches,
      .value_fetches = kValueFetches,
      .widen = widen_to_f32,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
