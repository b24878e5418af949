// SPDX-License-Identifier: MIT
// Linear attention token by token: shared by linear_attention and sequence_linear_attention.
#pragma once

#include <optional>
#include <vector>

#include "ops/op_origin.h"
#include "ops/operand_views.h"

namespace lathe {

struct LinearRule {
  bool gated = false;  // the state decays
  bool delta = false;  // delta rule
};

// Per sequence and key head a state S [key size, value size]:
//
//   S ← exp(g) · S;  S ← S + k ⊗ (v, or β · (v - Sᵀk));  o = scale · Sᵀq
//
// Views of any strides and float types, computed in f32: query [b, t, heads · size], key [b, t, …],
// value [b, t, kv_heads · values], decay [b, t, kv_heads (· size)], beta [b, t, kv_heads or 1],
// states [b, kv_heads, size, values], y [b, t, max(heads, kv_heads) · values]. With a window the
// states are [window, …], those after each of the last tokens; slots without a token are zero. The
// last slot is the present.
struct LinearRecurrence {
  LinearRule rule;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  double scale = 0;  // 0: 1 / √size
  TensorView query;
  TensorView key;
  TensorView value;
  std::optional<TensorView> past;  // none: zeros
  std::optional<TensorView> decay;
  std::optional<TensorView> beta;
  TensorView y;
  TensorView present;
  int64_t window = 0;  // 0: the states have no such axis

  void run(ThreadPool* pool) const;
};

struct LinearAttentionAttributes {
  explicit LinearAttentionAttributes(const InstructionReader& c);
  LinearRule rule;
  int64_t heads;
  int64_t kv_heads;
  double scale;
  int64_t window;
};

// Prepares linear_attention, or sequence_linear_attention for each item of its step that has
// tokens.
LinearRecurrence prepare_linear_attention(const LinearAttentionAttributes& a,
                                          const OperandViews& c);
void prepare_sequence_linear_attention(const LinearAttentionAttributes& a, const OpOrigin& origin,
                                       const OperandViews& c, std::vector<LinearRecurrence>& items);

}  // namespace lathe
