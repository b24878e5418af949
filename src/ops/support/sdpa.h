// SPDX-License-Identifier: MIT
// Scaled dot-product attention: what attention, multi_head_attention and group_query_attention
// share.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

class Evaluation;
class ThreadPool;

// Which intermediate value goes to `scores`.
enum class AttentionScores : uint8_t { none, raw, capped, biased, weights };

// Per batch row, head and query: weights = softmax over the allowed keys of
// softcap(scale · q·k) + bias, y = Σ weights · v. A query without an allowed key gives zeros.
// Views are 4-D with any strides; query head h reads key head h / (query heads / key heads).
struct Attend {
  TensorView q;  // [batch, heads, queries, size]
  TensorView k;  // [batch, key heads, keys, size]
  TensorView v;  // [batch, key heads, keys, value size]
  TensorView y;  // [batch, heads, queries, value size]
  double scale = 1;
  double softcap = 0;  // 0: none
  // [1|batch, 1|heads, 1|queries, n]: added, or a boolean that allows. Keys from n on are not
  // allowed, unless n is 1.
  std::optional<TensorView> bias;
  // Of each batch row: the position of query 0 among the keys, and how many keys there are.
  std::vector<int64_t> first;
  std::vector<int64_t> length;
  bool causal = false;
  int64_t left = -1;          // keys further back than this from the query are not allowed; -1: any
  int64_t right = -1;         // the same forward
  std::vector<double> sinks;  // per head, one more logit in the softmax's sum; empty: none
  // Per head: slope · (position of the key - that of the query) is added; empty: nothing.
  std::vector<double> slopes;
  AttentionScores kept = AttentionScores::none;
  TensorView scores;  // [batch, heads, queries, keys]
  Tensor staged_k;    // where k and v are not the caller's memory
  Tensor staged_v;

  void run(ThreadPool* pool) const;
};

// What an instruction of the op attends to, with its caches brought up to date; `keep` gets the
// tensors made on the way.
Attend prepare_attention(Evaluation& c);
Attend prepare_multi_head_attention(Evaluation& c, std::vector<Tensor>& keep);
Attend prepare_group_query_attention(Evaluation& c, std::vector<Tensor>& keep);

// [batch, sequence, heads·size] seen as [batch, heads, sequence, size].
TensorView split_heads(const TensorView& view, int64_t heads);
// Heads [first, first + count) of such a view.
TensorView slice_heads(const TensorView& view, int64_t first, int64_t count);
// Past (null: none) and added entries one behind the other along axis 2; the past may already lie
// in the present's memory.
void append_to_cache(const TensorView* past, const TensorView& added, const TensorView& present);
// A view of rank up to 4 with leading axes of extent 1 added, and axes of extent 1 broadcast.
TensorView broadcast_to_rank4(const TensorView& view);

}  // namespace lathe
