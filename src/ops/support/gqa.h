// SPDX-License-Identifier: MIT
// Query, key and value heads as exported decoders have them: what group_query_attention and
// sequence_attention share.
#pragma once

#include <span>
#include <vector>

#include "ops/evaluation.h"
#include "ops/support/sdpa.h"

namespace lathe {

// num_heads, kv_num_heads, scale, softcap, rotary and window attributes, and `extra`.
std::vector<AttributeSpec> grouped_attributes(std::vector<AttributeSpec> extra);

// [batch, heads, rows, size] of each. Without a key operand all lie in the query's columns.
struct GroupedHeads {
  GroupedHeads(const Evaluation& c, int query_operand, int key_operand, int value_operand);
  // Queries alone.
  GroupedHeads(const Evaluation& c, int query_operand);
  // Turns query and key (if there are any) by the tables' rows at `positions`, one per batch row
  // and row.
  void rotate(const Evaluation& c, int cos, int sin, std::span<const int64_t> positions);
  // The same into memory of the caller's, which is made large enough.
  void rotate(const Evaluation& c, int cos, int sin, std::span<const int64_t> positions,
              std::vector<std::byte>& memory);

  TensorView query;
  TensorView key;  // no data: queries alone
  TensorView value;
  // The memory of turned heads.
  std::vector<Tensor> tensors() const { return {rotated_query_, rotated_key_}; }

 private:
  void rotate_into(const Evaluation& c, int cos, int sin, std::span<const int64_t> positions,
                   const TensorView& to_query, const TensorView& to_key);
  int64_t key_count() const { return key.data == nullptr ? 0 : key.count(); }

  Tensor rotated_query_;
  Tensor rotated_key_;
};

// [rows, columns] seen as [1, rows, columns]; other views as they are.
TensorView with_batch(TensorView view);

// Scale, soft cap, window and sinks (none for an operand below 0).
void set_grouped_options(const Evaluation& c, int sink_operand, Attend& attend);

}  // namespace lathe
