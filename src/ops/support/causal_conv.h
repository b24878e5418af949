// SPDX-License-Identifier: MIT
// Depthwise convolutions over what came before: what causal_conv_with_state and sequence_conv
// share.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

class Evaluation;
class ThreadPool;

// y[t] = f(bias + Σ_j w[j] · s[t + j · dilation]), s: the past, then x. Any strides and float
// types; computed in f32. x and y [b, channels, length], the states [b, channels, (k - 1) ·
// dilation]; or [b, length, d…] with channels_last. With a window the states are [window, …], those
// after each of the last positions; without a position of this x they are zeros. The last counts.
struct CausalConv {
  TensorView x;
  TensorView w;  // [channels, 1, k]
  std::optional<TensorView> bias;
  std::optional<TensorView> past;  // none: zeros
  TensorView y;
  TensorView present;  // the last of s
  int64_t dilation = 1;
  bool channels_last = false;
  bool silu = false;
  int64_t window = 0;  // 0: the states have no such axis

  void run(ThreadPool* pool) const;
};

// What a causal_conv_with_state does, or a sequence_conv for each of its step's items that has
// rows.
CausalConv prepare_causal_conv(Evaluation& c);
void prepare_sequence_conv(Evaluation& c, std::vector<CausalConv>& items);

}  // namespace lathe
