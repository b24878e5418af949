// SPDX-License-Identifier: MIT
// Scaled dot-product attention over a key-value cache: prompts and single steps.
//
// Keys are cut into blocks of kKeyBlock at absolute positions. A block's maximum, sum and product
// start from nothing and are merged in ascending order of blocks, whoever computed them: a query
// row has the same bits whatever rows are computed with it, however its cache lies in memory and
// however the work is split.
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

// What is known before any run. Query head h reads key head h / (heads / key_heads).
struct AttentionProblem {
  int64_t heads = 1;
  int64_t key_heads = 1;
  int64_t size = 0;                      // of a query and a key
  int64_t value_size = 0;                // of a value and a result
  ElementType query = ElementType::f32;  // f32, bf16, f16
  ElementType cache = ElementType::f32;  // also i8
  ElementType result = ElementType::f32;
  // Products of bf16 pairs, with the weights rounded to bf16 (a cache of bf16 or i8; elsewhere and
  // on processors without them everything is computed in f32). With AVX-512 VNNI, though not with
  // AMX, a cache of i8 takes queries and weights as integers of 16 bits instead: what is below
  // 2^-16 (heads of more than 512: 2^-15) of a query's largest element, or of the largest of a
  // block's weights times scales, counts as 0.
  bool bf16_products = false;
  double scale = 1;
  double softcap = 0;  // 0: none; else softcap * tanh(score / softcap)
  bool causal = false;
  int64_t left = -1;   // keys further back than this from the query are not allowed; -1: any
  int64_t right = -1;  // the same forward
};

// Rows [batch, heads, rows, size]; the strides count elements, those of a row lie side by side.
struct AttentionRows {
  void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// Keys or values [batch, key heads, keys, size], contiguous or in pages: with a table, key t of
// batch row b is row t mod 2^page_shift of page table[b * table_stride + (t >> page_shift)], and
// `batch` is the distance between pages. With `pages` in its place, that entry of it is the page
// itself, which begins `page_offset` bytes in; a page without keys that anyone may see may be null.
struct AttentionCache {
  const void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  const int32_t* table = nullptr;
  int64_t table_stride = 0;
  int page_shift = 0;
  const std::byte* const* pages = nullptr;  // without scales
  int64_t page_offset = 0;
  // Of i8: one scale per (batch row or page, head, row), with strides that may be 0. Null: the
  // caller has scaled the queries, and will scale the results.
  const float* scales = nullptr;
  int64_t scale_batch = 0;
  int64_t scale_head = 0;
  int64_t scale_row = 0;

  bool is_paged() const { return table != nullptr || pages != nullptr; }
};

// Added to the scores, or a boolean that allows: [batch, heads, queries, keys], any strides, 0
// where broadcast. Keys from `keys` on are not allowed.
struct AttentionBias {
  const void* data = nullptr;  // null: none
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
  const int64_t* length = nullptr;  // per batch row: how many keys there are
  const float* sinks = nullptr;     // per head: one more logit in the softmax's sum
  // Per head, in place of a bias: slope · (place of the key - that of the query) is added.
  const float* slopes = nullptr;
  // Blocks of keys per task where the cache is split; 0: chosen. No result depends on it.
  int64_t split = 0;
};

class Attention {
 public:
  static constexpr int64_t kMostElements = 1024;  // of a head
  // Why these kernels do not take the problem; empty where they do.
  static std::string refuse(const AttentionProblem& problem, Isa isa);
  // The problem must not be refused.
  Attention(const AttentionProblem& problem, Isa isa);

  const AttentionProblem& problem() const { return problem_; }
  Isa isa() const { return isa_; }
  bool bf16_products() const { return bf16_; }
  void run(const AttentionArguments& arguments, ThreadPool* pool) const;

 private:
  AttentionProblem problem_;
  Isa isa_;
  bool bf16_;  // which products are used
  const AttentionKernels* kernels_;
};

}  // namespace lathe::cpu
