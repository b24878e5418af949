// SPDX-License-Identifier: MIT
// Scaled dot product attention over a KV cache: prefill and decode.
//
// Keys form blocks of kKeyBlock at absolute positions. Each block has its own maximum, sum and
// output, which are merged in ascending order of blocks. So the bits of a query row do not depend
// on other rows, cache layout or tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/element_type.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

struct AttentionKernels;

// Static parameters. Query head h reads KV head h / (heads / key_heads).
struct AttentionProblem {
  int64_t heads = 1;
  int64_t key_heads = 1;
  int64_t size = 0;                      // of a query and a key head
  int64_t value_size = 0;                // of a value and a result head
  ElementType query = ElementType::f32;  // f32, bf16, f16
  ElementType cache = ElementType::f32;  // f32, bf16, f16, i8
  ElementType result = ElementType::f32;
  // Computes bf16 dot products, with the softmax weights rounded to bf16. This applies to bf16 and
  // i8 caches; other caches and processors without bf16 compute in f32. With AVX-512 VNNI but not
  // AMX, an i8 cache uses int16 queries and weights. Values below 2^-16 (head size above 512:
  // 2^-15) of the largest in a query, or of a block's largest weight times scale, become 0.
  bool use_bf16 = false;
  double scale = 1;
  double softcap = 0;  // 0: none; else softcap * tanh(score / softcap)
  bool causal = false;
  int64_t left = -1;   // sliding window: keys before the query that it attends to; -1: all
  int64_t right = -1;  // keys after the query that it attends to; -1: all
};

// [batch, heads, rows, size] with strides in elements; the elements of a row are contiguous.
struct AttentionRows {
  void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// Keys or values [batch, KV heads, keys, size], contiguous or paged. With `table`, key t of batch
// row b is row t mod 2^page_shift of a page. The page is table[b * table_stride + (t >>
// page_shift)]; `batch` is the stride of pages. With `pages` instead, that entry is the address of
// the page, whose rows start at `page_offset` bytes. A page may be null if no query attends to its
// keys.
struct AttentionCache {
  const void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  const int32_t* table = nullptr;
  int64_t table_stride = 0;
  int page_shift = 0;
  const std::byte* const* pages = nullptr;  // no scales
  int64_t page_offset = 0;
  // Scales of i8, one per (batch row or page, head, row); strides may be 0. Null: the caller scales
  // queries and results.
  const float* scales = nullptr;
  int64_t scale_batch = 0;
  int64_t scale_head = 0;
  int64_t scale_row = 0;

  bool is_paged() const { return table != nullptr || pages != nullptr; }
};

// Added to the scores, or a boolean mask (true: attend): [batch, heads, queries, keys]. A stride of
// 0 broadcasts. Keys from `keys` on are masked.
struct AttentionBias {
  const void* data = nullptr;  // null: no bias
  ElementType type = ElementType::f32;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t key = 0;
  int64_t keys = INT64_MAX;
};

struct AttentionArguments {
  int64_t batch = 0;
  int64_t queries = 0;
  AttentionRows q;
  AttentionRows y;
  AttentionCache k;
  AttentionCache v;
  AttentionBias bias;
  const int64_t* first = nullptr;   // per batch row: the position of query 0 among the keys
  const int64_t* length = nullptr;  // per batch row: the number of keys
  // Per head: attention sink, a logit added to the softmax denominator.
  const float* sinks = nullptr;
  // ALiBi slopes per head, instead of a bias: adds slope · (key position - query position).
  const float* slopes = nullptr;
  // Key blocks per task in the split cache; 0: automatic. No effect on results.
  int64_t split = 0;
};

class Attention {
 public:
  static constexpr int64_t kMaxHeadSize = 1024;  // of a head
  // Reason why these kernels do not support the problem; empty if they do.
  static std::string refuse(const AttentionProblem& problem, Isa isa);
  // `refuse` must return an empty string.
  Attention(const AttentionProblem& problem, Isa isa);

  const AttentionProblem& problem() const { return problem_; }
  Isa isa() const { return isa_; }
  bool uses_bf16() const { return bf16_; }
  void run(const AttentionArguments& arguments, ThreadPool* pool) const;

 private:
  AttentionProblem problem_;
  Isa isa_;
  bool bf16_;  // computes bf16 dot products
  const AttentionKernels* kernels_;
};

}  // namespace lathe::cpu
