// SPDX-License-Identifier: MIT
// Scaled dot-product attention (SDPA): shared by attention, multi_head_attention and
// group_query_attention.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ops/support/scratch_tensor.h"

namespace lathe {

class InstructionReader;
class OpCall;
class ThreadPool;

// The intermediate value that `scores` holds.
enum class AttentionScores : uint8_t { none, raw, capped, biased, weights };

// Per batch, head and query: weights = softmax over the allowed keys of softcap(scale · q·k) +
// bias, y = Σ weights · v. A query without allowed keys outputs zeros. Views are 4-D with any
// strides; query head h reads key head h / (query heads / key heads).
struct Attend {
  TensorView q;  // [batch, heads, queries, size]
  TensorView k;  // [batch, key heads, keys, size]
  TensorView v;  // [batch, key heads, keys, value size]
  TensorView y;  // [batch, heads, queries, value size]
  double scale = 1;
  double softcap = 0;  // 0: none
  // [1|batch, 1|heads, 1|queries, n]: additive, or boolean (true: allowed). Keys from n on are
  // masked, unless n is 1.
  std::optional<TensorView> bias;
  // Per sequence: the position of query 0 among the keys, and the number of keys.
  ScratchList<int64_t> first;
  ScratchList<int64_t> length;
  bool causal = false;
  int64_t left = -1;   // largest distance to earlier keys; -1: unlimited
  int64_t right = -1;  // largest distance to later keys; -1: unlimited
  // Per head, an additional logit in the softmax's denominator; empty: none.
  ScratchList<double> sinks;
  // ALiBi: adds slope · (key position - query position) per head; empty: none.
  ScratchList<double> slopes;
  AttentionScores kept = AttentionScores::none;
  TensorView scores;  // [batch, heads, queries, keys]
  // Memory of k, v, and of other views, unless the caller owns it.
  ScratchTensor k_memory;
  ScratchTensor v_memory;
  std::array<ScratchTensor, 3> memory;

  // Rounds q, k and v to bf16, in `memory`.
  void round_to_bf16();
  void run(ThreadPool* pool) const;
};

// Each updates the instruction's KV cache and returns its attention.
struct AttentionAttributes {
  explicit AttentionAttributes(const InstructionReader& c);
  double scale;
  double softcap;
  bool causal;
  int64_t left;
  int64_t right;
  AttentionScores kept;
  bool use_bf16;  // q, k and v are rounded to bf16
};
// `in_place`: without past and present, keys and values are read where they are.
Attend prepare_attention(const AttentionAttributes& a, const OpCall& c, bool in_place = false);
struct MultiHeadAttributes {
  explicit MultiHeadAttributes(const InstructionReader& c);
  int64_t heads;
  double scale;
  double filter;
  bool causal;
};
Attend prepare_multi_head_attention(const MultiHeadAttributes& a, const OpCall& c);

// Views [batch, sequence, heads·size] as [batch, heads, sequence, size].
TensorView split_heads(const TensorView& view, int64_t heads);
// Heads [first, first + count) of such a view.
TensorView slice_heads(const TensorView& view, int64_t first, int64_t count);
// Writes past (null: none) and new entries to the present along axis 2; the past may already be in
// the present's memory.
void append_to_cache(const TensorView* past, const TensorView& added, const TensorView& present);
// A view of rank up to 4 with leading axes of size 1 added and axes of size 1 broadcast.
TensorView broadcast_to_rank4(const TensorView& view);

}  // namespace lathe
