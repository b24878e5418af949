// SPDX-License-Identifier: MIT
// What an instruction set gives to attention. Vectors run along query rows: queries, scores and
// products are kept as [size | keys | value size][pitch], pitch rows being a few whole vectors, so
// that keys and values are read where they lie and no sum runs across a vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "targets/cpu/kernels/simd/elements.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

inline constexpr int64_t kKeyBlock = 128;

inline constexpr int64_t kSegment = 16;  // keys whose rows lie at equal distances, at least
inline constexpr int64_t kSegments = kKeyBlock / kSegment;
inline constexpr int64_t kFetchBytes = 256;

// Rows that will be read soon, fetched into the second cache a few at a time between products; rows
// without gaps count as rows of kFetchBytes.
struct AttentionPrefetch {
  const std::byte* row = nullptr;
  int64_t stride = 0;
  int64_t bytes = 0;  // of a row
  int64_t rows = 0;   // left
  int64_t step = 0;   // rows at a time
  // Where rows lie in segments: those behind the current one, of `length` rows each.
  int64_t in_segment = INT64_MAX;  // rows left of the current one
  int64_t length = 0;
  int64_t next = 0;
  const std::byte* segments[kSegments] = {};
  // Where few rows are computed and a key's row follows another's without a gap: each kSegment
  // keys, null behind the last ones, and the bytes of a key.
  const std::byte* tight[kSegments] = {};
  int64_t tight_bytes = 0;
};

// One tile of query rows against the keys of one block; strides in bytes.
struct AttentionBlock {
  const void* q = nullptr;  // [size][pitch] f32, or [size / 2][pitch] pairs of bf16
  int64_t pitch = 0;
  const float* q_scales = nullptr;  // of rows of integers
  const void* k = nullptr;          // rows of f32 or bf16
  int64_t k_stride = 0;
  const void* v = nullptr;  // rows of f32, or as stage_values leaves them
  int64_t v_stride = 0;
  // Of the keys and values where rows are computed, in place of `k` and `v`.
  const std::byte* k_segments[kSegments] = {};
  const std::byte* v_segments[kSegments] = {};
  bool k_tight = false;  // such a row begins where the one before it ends
  bool v_tight = false;
  int64_t key_bytes = 0;  // of such a row
  int64_t value_bytes = 0;
  bool k_bytes = false;  // 8 bits as they lie in the cache, where rows are computed
  bool v_bytes = false;
  void* wide_keys = nullptr;  // scratch for 32 such keys in whole vectors of bf16
  int64_t key_columns = 0;    // size and value_size as they are
  int64_t value_columns = 0;
  int64_t keys = 0;        // 1 to kKeyBlock
  int64_t size = 0;        // rounded up to whole steps
  int64_t value_size = 0;  // the same
  float scale = 1;         // times log2(e): exponents are of 2
  float softcap = 0;       // 0: none; times log2(e), and its inverse times the plain scale
  float inside_cap = 0;
  const float* k_scales = nullptr;  // of each key, multiplies its scores; null: none
  const float* v_scales = nullptr;  // of each key, multiplies its weights in the product
  int64_t k_scale_step = 0;
  int64_t v_scale_step = 0;
  // [keys][bias_pitch], with a pitch of 1 for all rows; where rows are computed [rows][bias_pitch],
  // with a pitch of 0 for all. Null: none.
  const float* bias = nullptr;
  int64_t bias_pitch = 0;
  const float* lowest = nullptr;  // per row, the keys allowed are lowest..highest; null: all
  const float* highest = nullptr;
  AttentionPrefetch* next_k = nullptr;  // of the next block; the values of this one where rows are
  AttentionPrefetch* next_v = nullptr;  // computed and read where they lie
  float* scores = nullptr;              // scratch [kKeyBlock][pitch]; [rows][kKeyBlock]
  void* weights = nullptr;              // scratch of the same size
  float* product = nullptr;             // result [value_size][pitch]: Σ weight · value
  int64_t product_pitch = 0;            // where rows are computed: [rows][product_pitch]
  float* largest = nullptr;  // result [pitch]: the largest score, -inf where no key is allowed
  float* sum = nullptr;      // result [pitch]: Σ weight
};

// Sums so far: y = product / sum relative to 2^largest. Starts from zeros and -inf.
struct AttentionState {
  float* product = nullptr;
  float* largest = nullptr;
  float* sum = nullptr;
};

inline constexpr int64_t kContiguousBlocks = 32;  // of a run, at most
inline constexpr int64_t kContiguousRows = 4;
inline constexpr int64_t kContiguousFactors =
    kContiguousBlocks * kContiguousRows + 16;      // room for a whole vector
inline constexpr int64_t kContiguousColumns = 64;  // of values; twice as many of half the rows

// The bits of a number below `count`, a power of two, in reverse. Memory that is read again and
// again beside a stream lies in this order: in its own it would be taken for one more stream, and
// what processors fetch ahead is not enough for two.
constexpr int64_t reversed(int64_t x, int64_t count) {
  int64_t to = 0;
  for (int64_t bit = 1; bit < count; bit *= 2, x /= 2) to = 2 * to + x % 2;
  return to;
}

// A few rows against whole blocks whose keys lie side by side, and whose values do.
struct ContiguousDecode {
  const void* q = nullptr;  // as few rows have them
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  int64_t key_bytes = 0;  // of a row
  int64_t value_bytes = 0;
  int64_t value_size = 0;
  int64_t blocks = 0;       // 1 to kContiguousBlocks
  float scale = 1;          // as above
  float* scores = nullptr;  // scratch of two blocks, [rows][kKeyBlock] each
  void* weights = nullptr;  // scratch of all blocks
  int64_t product_pitch = 0;
  // Of each block: its largest scores and sums come with the keys, its product with the values.
  const AttentionState* results = nullptr;
  // Or all of them merged into one state; results then need no products.
  const AttentionState* merged = nullptr;
  float* factors = nullptr;  // scratch for that: of state and block, [2][kContiguousFactors]

  // [rows][kKeyBlock] of f32 or, `pairs`, of bf16, as run_weight_line orders them.
  void* weights_of(int64_t block, int64_t rows, bool pairs) const {
    return static_cast<std::byte*>(weights) +
           reversed(block, kContiguousBlocks) * rows * kKeyBlock * (pairs ? 2 : 4);
  }
};

// The same of several key heads, whose keys and values lie in pages: [heads][keys of a page] of
// rows side by side.
struct PagedDecode {
  // Of each head as few rows have them, in lines of four units: line i at places[i].
  const float* queries = nullptr;
  const int32_t* places = nullptr;
  int64_t heads = 1;
  int64_t blocks = 0;
  int64_t segments = 1;  // of kSegment keys that a page has side by side: a divisor of kSegments
  // Where each so many keys of the first head begin, and the bytes to the next head's.
  const std::byte* const* k = nullptr;
  const std::byte* const* v = nullptr;
  int64_t k_head = 0;
  int64_t v_head = 0;
  int64_t key_bytes = 0;  // of a row; of a value as its size says
  int64_t value_size = 0;
  float scale = 1;
  float* scores = nullptr;    // scratch [tiles of a block][rows][kSegment]
  void* weights = nullptr;    // scratch of all blocks, and room for a vector
  float* softmax = nullptr;   // scratch [heads][kPageSoftmax]
  float* products = nullptr;  // scratch [heads][rows][value_size]
  int64_t product_pitch = 0;
  const AttentionState* results = nullptr;  // [blocks][heads]
  const AttentionState* merged = nullptr;   // [heads]
  float* factors =
      nullptr;  // scratch: of state and block, [2][blocks * heads * kContiguousRows + 16]
};
inline constexpr int64_t kPageSoftmax = 48;
inline constexpr int64_t kQueryLine = 16;   // floats
inline constexpr int64_t kQueryLines = 32;  // of a head, at most

struct AttentionKernels {
  bool bf16;
  // Keys and values of 8 bits as they are, queries and weights as integers of 16 bits, by a scale
  // per row: sums are exact. Few rows have [size / 4][pitch] high bytes of queries, then low ones.
  bool words = false;
  int lanes;
  int vectors;    // of rows in a tile, at most
  int size_step;  // size and value_size are rounded up to these
  int value_step;
  int key_step;  // keys of a block are rounded up to this where the block has rows of its own
  // to[unit * to_pitch + row] = from[row * from_pitch + unit] for 32-bit units.
  // The `count` numbers as such integers, zero up to `size`; returns the scale.
  float (*quantise)(const float* from, int64_t count, int64_t size, bool bytes, void* to) = nullptr;
  void (*transpose)(const float* from, int64_t from_pitch, int64_t rows, int64_t units, float* to,
                    int64_t to_pitch);
  // Values of bf16 rows (stride in bytes) as the product reads them; null where it reads rows.
  void (*stage_values)(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size,
                       void* to);
  int64_t (*value_stride)(int64_t value_size);
  void (*block)(const AttentionBlock& block);
  // The same for at most few_rows rows, with the values as rows and the product as rows.
  int few_rows;
  bool rows_feed = false;  // that fetches rows without gaps by itself, from where `tight` says
  int few_pitch = 0;  // of their queries, one group of so many rows after another; 0: as elsewhere
  void (*rows)(const AttentionBlock& block, int64_t rows);
  // Rows against runs of blocks: which do, null: none; scores and softmax of all blocks; then the
  // values of one block after another.
  bool (*run_fits)(int64_t key_bytes, int64_t value_size, int64_t rows) = nullptr;
  void (*run_keys)(const ContiguousDecode& run, int64_t rows) = nullptr;
  void (*run_values)(const ContiguousDecode& run, int64_t block, int64_t rows) = nullptr;
  // The same in pages, all keys and then all values; null: none.
  void (*run_pages)(const PagedDecode& run, int64_t rows) = nullptr;
  // How often it fetches while it computes scores and products.
  int64_t (*score_fetches)(int64_t size);
  int64_t value_fetches;
  bool rows_read_bytes = false;  // keys and values of 8 bits where they lie
  // Elements of a cache in the products' type.
  void (*widen)(ElementType type, const void* from, int64_t count, void* to);
  // Adds one block's result: vectors along rows ([value_size][pitch]) or along values
  // ([rows][value_size]).
  void (*merge)(const AttentionState& state, const AttentionState& block, int64_t value_size,
                int64_t pitch);
  void (*merge_rows)(const AttentionState& state, const AttentionState& block, int64_t value_size,
                     int64_t rows);
  // to[row] = 1 / sum with the sinks (times log2(e), null: none) in it; 0 without allowed keys.
  void (*factors)(const float* largest, const float* sum, const float* sinks, int64_t pitch,
                  float* to);
  // to = from · factor + 0 (never -0: skipped blocks and those of zero weights differ in it) in the
  // results' type.
  void (*scale_row)(ElementType type, const float* from, int64_t count, float factor, void* to);
};

const AttentionKernels& attention_f32_avx2();
const AttentionKernels& attention_f32_avx512();
const AttentionKernels& attention_bf16_avx512();
const AttentionKernels& attention_words_avx512();
const AttentionKernels& attention_bf16_amx();

}  // namespace lathe::cpu
