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
      .prefill = prefill_block<SingleStep>,
      .max_decode_rows = kMaxDecodeRows,
      .decode_prefetches = true,
      .decode_pitch = kRowsAtOnce,
      .decode = decode_rows<SingleStep, SingleValues>,
      .contiguous_fits = contiguous_fits<SingleStep>,
      .contiguous_keys = contiguous_keys<SingleStep>,
      .contiguous_values = contiguous_values<SingleStep, SingleValues>,
      .paged_decode = paged_decode<SingleStep, SingleValues>,
      .score_prefetches = score_prefetches,
      .value_prefetches = kValuePrefetches,
      .widen = widen_to_f32,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
