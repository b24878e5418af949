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
      .prefill = prefill_block<PairStep>,
      .max_decode_rows = kMaxDecodeRows,
      .decode_prefetches = true,
      .decode_pitch = kRowsAtOnce,
      .decode = decode_rows<PairStep, PairValues>,
      .contiguous_fits = contiguous_fits<PairStep>,
      .contiguous_keys = contiguous_keys<PairStep>,
      .contiguous_values = contiguous_values<PairStep, PairValues>,
      .paged_decode = paged_decode<PairStep, PairValues>,
      .score_prefetches = score_prefetches,
      .value_prefetches = kValuePrefetches,
      .widen = widen_to_bf16,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
