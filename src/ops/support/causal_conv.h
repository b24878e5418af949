// SPDX-License-Identifier: MIT
// Causal depthwise convolution: shared by causal_conv_with_state and sequence_conv.
#pragma once

#include <optional>
#include <vector>

#include "ops/op_origin.h"
#include "ops/operand_views.h"

namespace lathe {

// y[t] = f(bias + Σ_j w[j] · s[t + j · dilation]), where s is the past followed by x. Any strides
// and float types; computes in f32. x and y are [b, channels, length], the states [b, channels, (k
// - 1) · dilation]; with channels_last x and y are [b, length, d…]. With a window the states are
// [window, …], those after each of the last positions; slots without a position are zero. The last
// slot is the present.
struct CausalConv {
  TensorView x;
  TensorView w;  // [channels, 1, k]
  std::optional<TensorView> bias;
  std::optional<TensorView> past;  // none: zeros
  TensorView y;
  TensorView present;  // the end of s
  int64_t dilation = 1;
  bool channels_last = false;
  bool silu = false;
  int64_t window = 0;  // 0: the states have no such axis

  void run(ThreadPool* pool) const;
};

struct CausalConvAttributes {
  explicit CausalConvAttributes(const InstructionReader& c);
  int64_t dilation;
  bool channels_last;
  bool silu;
  int64_t window;
  // sequence_conv
  bool rows_first = false;
};

// Prepares causal_conv_with_state, or sequence_conv for each item of its step that has tokens.
CausalConv prepare_causal_conv(const CausalConvAttributes& a, const OperandViews& c);
void prepare_sequence_conv(const CausalConvAttributes& a, const OpOrigin& origin,
                           const OperandViews& c, std::vector<CausalConv>& items);

}  // namespace lathe
