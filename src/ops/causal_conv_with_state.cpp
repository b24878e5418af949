// SPDX-License-Identifier: MIT
// x is [b, channels, length], w [channels, 1, k], the state [b, channels, (k - 1) · dilation]: the
// inputs before x, zeros if absent. With channels_last, x is [b, length, d…], channels = d · …, and
// the state likewise. With state_window there are several states (causal_conv.h).
#include "ops/support/causal_conv.h"

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

Dim state_length(Infer& c) { return (c.dim(1, 2) - Dim(1)) * Dim(c.integer("dilation")); }

void infer_causal_conv(Infer& c) {
  const std::string& f = c.text("activation");
  c.check(f == "none" || f == "silu" || f == "swish",
          "activation is '{}', expected none, silu or swish", escape(f));
  c.check(c.integer("dilation") >= 1, "dilation is {}, expected 1 or more", c.integer("dilation"));
  const bool last = c.boolean("channels_last");
  c.check(last ? c.rank(0) >= 3 : c.rank(0) == 3, "x has rank {}, expected 3", c.rank(0));
  c.check(c.rank(1) == 3, "the weights have rank {}, expected 3", c.rank(1));
  Dim channels = last ? Dim(1) : c.dim(0, 1);
  for (int axis = 2; last && axis < c.rank(0); ++axis) channels = channels * c.dim(0, axis);
  c.require_equal(c.dim(1, 0), channels, "channels of the weights and of x");
  c.require_equal(c.dim(1, 1), 1, "input channels per group");
  if (c.has(2)) c.require_equal(c.dim(2, 0), channels, "elements of the bias");
  std::vector<Dim> state = c.dims(0);
  state[last ? 1 : 2] = state_length(c);
  const int64_t window = c.integer("state_window");
  c.check(window >= 0 && window <= 8, "state_window is {}, expected 0 to 8", window);
  if (window > 0) state.insert(state.begin(), window);
  if (c.has(3)) {
    const int rank = static_cast<int>(state.size());
    c.check(c.rank(3) == rank, "the state has rank {}, expected {}", c.rank(3), rank);
    for (int axis = 0; axis < rank; ++axis) {
      c.require_equal(c.dim(3, axis), state[static_cast<size_t>(axis)], "shape of the state");
    }
  }
  c.result(c.element(0), c.dims(0));
  c.result(c.element(0), state);
}

}  // namespace

CausalConv prepare_causal_conv(const CausalConvAttributes& a, const OperandViews& c) {
  CausalConv conv;
  conv.x = c.in(0);
  conv.w = c.in(1);
  if (c.has(2)) conv.bias = c.in(2);
  if (c.has(3)) conv.past = c.in(3);
  conv.y = c.out(0);
  conv.present = c.out(1);
  conv.dilation = a.dilation;
  conv.channels_last = a.channels_last;
  conv.silu = a.silu;
  conv.window = a.window;
  return conv;
}

static const Register causal_conv_with_state{{
    .name = "causal_conv_with_state",
    .doc = "Causal depthwise convolution with the last inputs as state.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"w", kFloats, Arity::one, 'T'},
                 {"bias", kFloats, Arity::optional, 'T'},
                 {"past_state", kFloats, Arity::optional, 'T'}},
    .attributes = {{"activation", "none"},
                   {"channels_last", Attribute(false)},
                   {"dilation", 1},
                   {"state_window", 0}},
    .results = 2,
    .infer = infer_causal_conv,
    .eval = [](Evaluation& c) { prepare_causal_conv(CausalConvAttributes(c), c).run(c.pool); },
}};

}  // namespace lathe
