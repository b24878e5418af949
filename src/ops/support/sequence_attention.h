// SPDX-License-Identifier: MIT
// Attention of packed tokens of several sequences, [1, tokens, …], over paged KV caches: shared by
// sequence_attention, which appends each token's keys and values, and cached_attention, which reads
// caches as they are.
#pragma once

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

// Indices of operands.
struct SequenceAttentionOperands {
  int query = 0;
  int key = -1;  // new keys and values; -1: the op appends none
  int value = -1;
  int key_cache = 0;
  int value_cache = 0;
  int bounds = 0;  // step tables (step_tables.h)
  int past = 0;
  int table = 0;
  int cos = 0;
  int sin = 0;
  int positions = 0;
  int sink = 0;
  int key_scale = 0;
  int value_scale = 0;

  bool appends() const { return key >= 0; }
};
constexpr SequenceAttentionOperands sequence_attention_operands(bool appends) {
  const int at = appends ? 3 : 1;
  return {0,      appends ? 1 : -1, appends ? 2 : -1, at,     at + 1, at + 2, at + 3,
          at + 4, at + 5,           at + 6,           at + 7, at + 8, at + 9, at + 10};
}

std::vector<OperandSpec> sequence_attention_specs(bool appends);
void infer_sequence_attention(Infer& c, const SequenceAttentionOperands& operands);
void evaluate_sequence_attention(Evaluation& c, const SequenceAttentionOperands& operands);

}  // namespace lathe
