// SPDX-License-Identifier: MIT
// GQA operands of decoders: shared by group_query_attention and sequence_attention.
#pragma once

#include <span>
#include <vector>

#include "ops/op_call.h"
#include "ops/support/sdpa.h"

namespace lathe {

// num_heads, kv_num_heads, scale, softcap, RoPE and window attributes, and `extra`.
std::vector<AttributeSpec> gqa_attributes(std::vector<AttributeSpec> extra);

struct GqaAttributes {
  explicit GqaAttributes(const InstructionReader& c);
  int64_t heads;
  int64_t kv_heads;
  double scale;
  double softcap;
  bool do_rotary;
  bool interleaved;
  int64_t window;
  bool smooth_softmax;
};

// Query, key and value as [batch, heads, tokens, size]. Without a key operand, all are in the
// query's columns.
struct GqaHeads {
  GqaHeads(const GqaAttributes& a, const OpCall& c, int query_operand, int key_operand,
           int value_operand);
  // Queries only.
  GqaHeads(const GqaAttributes& a, const OpCall& c, int query_operand);
  // Applies RoPE to query and key (if present); `positions` has one entry per batch and token.
  void rotate(const GqaAttributes& a, const OpCall& c, int cos, int sin,
              std::span<const int64_t> positions);
  // rotate() into the caller's memory, which is resized.
  void rotate(const GqaAttributes& a, const OpCall& c, int cos, int sin,
              std::span<const int64_t> positions, std::vector<std::byte>& memory);

  TensorView query;
  TensorView key;  // no data: queries only
  TensorView value;
  // Memory of the rotated query.
  ScratchTensor take_rotated_query() { return std::move(rotated_query_); }

 private:
  void rotate_into(const GqaAttributes& a, const OpCall& c, int cos, int sin,
                   std::span<const int64_t> positions, const TensorView& to_query,
                   const TensorView& to_key);
  int64_t key_count() const { return key.data == nullptr ? 0 : key.count(); }

  ScratchTensor rotated_query_;
  ScratchTensor rotated_key_;
};

struct GroupQueryAttributes : GqaAttributes {
  explicit GroupQueryAttributes(const InstructionReader& c);
  bool sliding;
  bool causal;
  int64_t qk_output;
};
// Updates the KV cache of group_query_attention and returns its attention.
Attend prepare_group_query_attention(const GroupQueryAttributes& a, const OpCall& c);

// Views [tokens, columns] as [1, tokens, columns]; other views stay.
TensorView with_batch(TensorView view);

// Sets scale, softcap, window and sinks (none for an operand below 0).
void set_gqa_options(const GqaAttributes& a, const OpCall& c, int sink_operand, Attend& attend);

}  // namespace lathe
