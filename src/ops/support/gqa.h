// SPDX-License-Identifier: MIT
// GQA operands of decoders: shared by group_query_attention and sequence_attention.
#pragma once

#include <span>
#include <vector>

#include "ops/evaluation.h"
#include "ops/support/sdpa.h"

namespace lathe {

// num_heads, kv_num_heads, scale, softcap, RoPE and window attributes, and `extra`.
std::vector<AttributeSpec> gqa_attributes(std::vector<AttributeSpec> extra);

// Query, key and value as [batch, heads, tokens, size]. Without a key operand, all are in the
// query's columns.
struct GqaHeads {
  GqaHeads(const Evaluation& c, int query_operand, int key_operand, int value_operand);
  // Queries only.
  GqaHeads(const Evaluation& c, int query_operand);
  // Applies RoPE to query and key (if present); `positions` has one entry per batch and token.
  void rotate(const Evaluation& c, int cos, int sin, std::span<const int64_t> positions);
  // rotate() into the caller's memory, which is resized.
  void rotate(const Evaluation& c, int cos, int sin, std::span<const int64_t> positions,
              std::vector<std::byte>& memory);

  TensorView query;
  TensorView key;  // no data: queries only
  TensorView value;
  // Memory of rotated heads.
  std::vector<Tensor> tensors() const { return {rotated_query_, rotated_key_}; }

 private:
  void rotate_into(const Evaluation& c, int cos, int sin, std::span<const int64_t> positions,
                   const TensorView& to_query, const TensorView& to_key);
  int64_t key_count() const { return key.data == nullptr ? 0 : key.count(); }

  Tensor rotated_query_;
  Tensor rotated_key_;
};

// Views [tokens, columns] as [1, tokens, columns]; other views stay.
TensorView with_batch(TensorView view);

// Sets scale, softcap, window and sinks (none for an operand below 0).
void set_gqa_options(const Evaluation& c, int sink_operand, Attend& attend);

}  // namespace lathe
