// SPDX-License-Identifier: MIT
// Attention kernels of an instruction set. Vectors run along query rows: queries, scores and
// outputs are [size | keys | value size][pitch], where pitch is a number of rows in full vectors.
// So keys and values are read in place, and no sum runs across a vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "targets/cpu/kernels/simd/elements.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

inline constexpr int64_t kKeyBlock = 128;

inline constexpr int64_t kSegment = 16;  // keys with a uniform stride, at least
inline constexpr int64_t kSegments = kKeyBlock / kSegment;
inline constexpr int64_t kPrefetchBytes = 256;

// Rows to prefetch into L2, some between the steps of a GEMM. Contiguous rows count as rows of
// kPrefetchBytes.
struct AttentionPrefetch {
  const std::byte* row = nullptr;
  int64_t stride = 0;
  int64_t bytes = 0;  // of a row
  int64_t rows = 0;   // left
  int64_t step = 0;   // rows per call
  // For rows in segments: the segments after the current one, of `length` rows each.
  int64_t in_segment = INT64_MAX;  // rows left in the current one
  int64_t length = 0;
  int64_t next = 0;
  const std::byte* segments[kSegments] = {};
  // For decode with contiguous rows: each kSegment keys, null after the last ones, and the bytes of
  // a key.
  const std::byte* contiguous[kSegments] = {};
  int64_t contiguous_bytes = 0;
};

// One tile of query rows times the keys of one block; byte strides.
struct AttentionBlock {
  const void* q = nullptr;  // [size][pitch] f32, or [size / 2][pitch] pairs of bf16
  int64_t pitch = 0;
  const float* q_scales = nullptr;  // of int16 rows
  const void* k = nullptr;          // rows of f32 or bf16
  int64_t k_stride = 0;
  const void* v = nullptr;  // rows of f32, or the form of stage_values
  int64_t v_stride = 0;
  // Keys and values of the decode kernels, instead of `k` and `v`.
  const std::byte* k_segments[kSegments] = {};
  const std::byte* v_segments[kSegments] = {};
  bool k_contiguous = false;  // rows of k_segments are contiguous
  bool v_contiguous = false;
  int64_t key_bytes = 0;  // of a row of k_segments
  int64_t value_bytes = 0;
  bool k_int8 = false;  // decode reads the int8 cache in place
  bool v_int8 = false;
  void* wide_keys = nullptr;  // scratch for 32 int8 keys widened to bf16, in full vectors
  int64_t key_columns = 0;    // size and value_size before rounding
  int64_t value_columns = 0;
  int64_t keys = 0;        // 1 to kKeyBlock
  int64_t size = 0;        // rounded up to size_step
  int64_t value_size = 0;  // rounded up to value_step
  float scale = 1;         // times log2(e), for base-2 exponentials
  float softcap = 0;       // 0: none; times log2(e). inside_cap: plain scale / softcap
  float inside_cap = 0;
  const float* k_scales = nullptr;  // of each key, multiplies its scores; null: none
  const float* v_scales = nullptr;  // of each key, multiplies its softmax weights
  int64_t k_scale_step = 0;
  int64_t v_scale_step = 0;
  // [keys][bias_pitch]; pitch 1: shared by all rows. In decode [rows][bias_pitch]; pitch 0: shared.
  // Null: none.
  const float* bias = nullptr;
  int64_t bias_pitch = 0;
  const float* lowest = nullptr;  // per row, keys lowest..highest are allowed; null: all
  const float* highest = nullptr;
  AttentionPrefetch* next_k = nullptr;  // the next block's keys
  // The next block's values; in decode with values in place, this block's.
  AttentionPrefetch* next_v = nullptr;
  float* scores = nullptr;   // scratch [kKeyBlock][pitch]; decode: [rows][kKeyBlock]
  void* weights = nullptr;   // scratch of the same size
  float* output = nullptr;   // result [value_size][pitch]: Σ weight · value
  int64_t output_pitch = 0;  // decode: [rows][output_pitch]
  float* largest = nullptr;  // result [pitch]: the largest score, -inf if all keys are masked
  float* sum = nullptr;      // result [pitch]: Σ weight
};

// Online softmax state: y = output / sum relative to 2^largest. Starts from 0 and -inf.
struct AttentionState {
  float* output = nullptr;
  float* largest = nullptr;
  float* sum = nullptr;
};

inline constexpr int64_t kContiguousBlocks = 32;  // maximum of contiguous decode
inline constexpr int64_t kContiguousRows = 4;
inline constexpr int64_t kContiguousFactors =
    kContiguousBlocks * kContiguousRows + 16;      // with padding for a full vector
inline constexpr int64_t kContiguousColumns = 64;  // of values; twice as many with half the rows

// Reverses the bits of x, which is below `count`, a power of two. Data reused beside sequential
// reads has this order, so that the hardware prefetcher ignores it: two
// hardware prefetch streams would each be slower.
constexpr int64_t reversed(int64_t x, int64_t count) {
  int64_t to = 0;
  for (int64_t bit = 1; bit < count; bit *= 2, x /= 2) to = 2 * to + x % 2;
  return to;
}

// Contiguous decode: some query rows times full blocks with contiguous keys and contiguous values.
struct ContiguousDecode {
  const void* q = nullptr;  // in the decode layout
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  int64_t key_bytes = 0;  // of a row
  int64_t value_bytes = 0;
  int64_t value_size = 0;
  int64_t blocks = 0;       // 1 to kContiguousBlocks
  float scale = 1;          // times log2(e)
  float* scores = nullptr;  // scratch of two blocks, [rows][kKeyBlock] each
  void* weights = nullptr;  // scratch of all blocks
  int64_t output_pitch = 0;
  // Per block: the keys pass sets maximum and sum, the values pass the output.
  const AttentionState* results = nullptr;
  // If not null, all blocks are merged into this state; results need no output.
  const AttentionState* merged = nullptr;
  // Scratch for merged: factors of state and block, [2][kContiguousFactors]
  float* factors = nullptr;

  // [rows][kKeyBlock] of f32 or, if `pairs`, bf16, in the order of contiguous_weight_vector.
  void* weights_of(int64_t block, int64_t rows, bool pairs) const {
    return static_cast<std::byte*>(weights) +
           reversed(block, kContiguousBlocks) * rows * kKeyBlock * (pairs ? 2 : 4);
  }
};

// Decode over the paged KV cache for several KV heads. A page is [heads][keys of a page] of
// contiguous rows.
struct PagedDecode {
  // Per head in the decode layout, in cache lines of four units: cache line i is at places[i].
  const float* queries = nullptr;
  const int32_t* places = nullptr;
  int64_t heads = 1;
  int64_t blocks = 0;
  int64_t segments = 1;  // of kSegment keys in a page: a divisor of kSegments
  // Per page: the first head's first key, and the byte stride of heads.
  const std::byte* const* k = nullptr;
  const std::byte* const* v = nullptr;
  int64_t k_head = 0;
  int64_t v_head = 0;
  int64_t key_bytes = 0;  // of a row; value rows follow from value_size
  int64_t value_size = 0;
  float scale = 1;
  float* scores = nullptr;   // scratch [tiles of a block][rows][kSegment]
  void* weights = nullptr;   // scratch of all blocks, padded by a vector
  float* softmax = nullptr;  // scratch [heads][kPageSoftmax]
  float* outputs = nullptr;  // scratch [heads][rows][value_size]
  int64_t output_pitch = 0;
  const AttentionState* results = nullptr;  // [blocks][heads]
  const AttentionState* merged = nullptr;   // [heads]
  // Scratch: factors of state and block, [2][blocks * heads * kContiguousRows + 16].
  float* factors = nullptr;
};
inline constexpr int64_t kPageSoftmax = 48;
inline constexpr int64_t kQueryCacheLine = 16;      // floats
inline constexpr int64_t kMaxQueryCacheLines = 32;  // of a head, at most

struct AttentionKernels {
  bool bf16;
  // An int8 cache without conversion: queries and weights are int16 with a scale per row, and
  // accumulators are exact. Decode reads [size / 4][pitch] high bytes of queries, then the low
  // bytes.
  bool int16 = false;
  int lanes;
  int vectors;    // of rows in a tile, at most
  int size_step;  // size and value_size are rounded up to these
  int value_step;
  int key_step;  // keys of a block are rounded up to this if the block is a padded copy
  // `quantise` converts `count` values to int16, pads with zeros up to `size`, and returns the
  // scale. `transpose`: to[unit * to_pitch + row] = from[row * from_pitch + unit] for 32-bit units.
  float (*quantise)(const float* from, int64_t count, int64_t size, bool split, void* to) = nullptr;
  void (*transpose)(const float* from, int64_t from_pitch, int64_t rows, int64_t units, float* to,
                    int64_t to_pitch);
  // Packs values from bf16 rows (byte stride) for the output GEMM; null: it reads rows.
  void (*stage_values)(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size,
                       void* to);
  int64_t (*value_stride)(int64_t value_size);
  void (*prefill)(const AttentionBlock& block);
  // The decode kernel, for at most max_decode_rows rows. Values and output are rows.
  int max_decode_rows;
  bool decode_prefetches = false;  // decode prefetches the contiguous segments by itself
  int decode_pitch = 0;  // query rows per group of the decode layout; 0: the prefill layout
  void (*decode)(const AttentionBlock& block, int64_t rows);
  // Contiguous decode: the supported shapes (null: none), then scores and softmax of all blocks,
  // then the values block by block.
  bool (*contiguous_fits)(int64_t key_bytes, int64_t value_size, int64_t rows) = nullptr;
  void (*contiguous_keys)(const ContiguousDecode& call, int64_t rows) = nullptr;
  void (*contiguous_values)(const ContiguousDecode& call, int64_t block, int64_t rows) = nullptr;
  // Paged decode: all keys and then all values; null: none.
  void (*paged_decode)(const PagedDecode& call, int64_t rows) = nullptr;
  // Prefetch calls per block beside scores and values.
  int64_t (*score_prefetches)(int64_t size);
  int64_t value_prefetches;
  bool decode_reads_int8 = false;  // decode reads the int8 cache in place
  // Converts cache elements to the compute type.
  void (*widen)(ElementType type, const void* from, int64_t count, void* to);
  // Merges one block's result: vectors along rows ([value_size][pitch]) or along values
  // ([rows][value_size]).
  void (*merge)(const AttentionState& state, const AttentionState& block, int64_t value_size,
                int64_t pitch);
  void (*merge_rows)(const AttentionState& state, const AttentionState& block, int64_t value_size,
                     int64_t rows);
  // to[row] = 1 / sum, including sinks (times log2(e), null: none); 0 if all keys are masked.
  void (*factors)(const float* largest, const float* sum, const float* sinks, int64_t pitch,
                  float* to);
  // to = from · factor + 0 in the result type. Never -0, in which skipped blocks and blocks of zero
  // weights would differ.
  void (*scale_row)(ElementType type, const float* from, int64_t count, float factor, void* to);
};

const AttentionKernels& attention_f32_avx2();
const AttentionKernels& attention_f32_avx512();
const AttentionKernels& attention_bf16_avx512();
const AttentionKernels& attention_int16_avx512();
const AttentionKernels& attention_bf16_amx();

}  // namespace lathe::cpu
