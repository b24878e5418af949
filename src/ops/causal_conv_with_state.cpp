// SPDX-License-Identifier: MIT
// x [b, channels, length], w [channels, 1, k], the state [b, channels, (k - 1) · dilation]: what
// lies before x, zeros without. With channels_last, x is [b, length, d…] and the state likewise,
// channels = d · ….
#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/float_result.h"
#include "ops/quantization.h"

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
  if (c.has(3)) {
    c.check(c.rank(3) == c.rank(0), "the state has rank {}, x {}", c.rank(3), c.rank(0));
    for (int axis = 0; axis < c.rank(0); ++axis) {
      c.require_equal(c.dim(3, axis), state[static_cast<size_t>(axis)], "extents of the state");
    }
  }
  c.result(c.element(0), c.dims(0));
  c.result(c.element(0), state);
}

// One channel of one batch row, stretched out: the state, then x.
struct Layout {
  int64_t batch, channels, length, state;
  bool last;
  int64_t at(int64_t b, int64_t channel, int64_t t, int64_t extent) const {
    return last ? (b * extent + t) * channels + channel : (b * channels + channel) * extent + t;
  }
};

void evaluate_causal_conv(Evaluation& c) {
  const bool last = c.boolean("channels_last");
  const Tensor x = float_tensor(c.in(0));
  const Tensor w = float_tensor(c.in(1));
  const Tensor bias = c.has(2) ? float_tensor(c.in(2)) : Tensor();
  const Tensor past = c.has(3) ? float_tensor(c.in(3)) : Tensor();
  const int64_t taps = w.dims()[2];
  const int64_t dilation = c.integer("dilation");
  const Layout layout{x.dims()[0], w.dims()[0], x.dims()[last ? 1 : 2], (taps - 1) * dilation,
                      last};
  const FloatResult y(c.out(0));
  const FloatResult present(c.out(1));
  const bool silu = c.text("activation") != "none";
  parallel_for(c.pool, layout.batch * layout.channels, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> line(static_cast<size_t>(layout.state + layout.length));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / layout.channels;
      const int64_t channel = row % layout.channels;
      for (int64_t t = 0; t < layout.state; ++t) {
        line[static_cast<size_t>(t)] =
            c.has(3) ? past.as<float>()[layout.at(b, channel, t, layout.state)] : 0.0F;
      }
      for (int64_t t = 0; t < layout.length; ++t) {
        line[static_cast<size_t>(layout.state + t)] =
            x.as<float>()[layout.at(b, channel, t, layout.length)];
      }
      const float* tap = w.as<float>() + channel * taps;
      for (int64_t t = 0; t < layout.length; ++t) {
        float sum = c.has(2) ? bias.as<float>()[channel] : 0.0F;
        for (int64_t j = 0; j < taps; ++j)
          sum += tap[j] * line[static_cast<size_t>(t + j * dilation)];
        y.data()[layout.at(b, channel, t, layout.length)] = silu ? sum / (1 + std::exp(-sum)) : sum;
      }
      for (int64_t t = 0; t < layout.state; ++t) {
        present.data()[layout.at(b, channel, t, layout.state)] =
            line[static_cast<size_t>(layout.length + t)];
      }
    }
  });
  y.store();
  present.store();
}

}  // namespace

static const Register causal_conv_with_state{{
    .name = "causal_conv_with_state",
    .doc = "A depthwise convolution over what came before, with the last inputs as state.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"w", kFloats, Arity::one, 'T'},
                 {"bias", kFloats, Arity::optional, 'T'},
                 {"past_state", kFloats, Arity::optional, 'T'}},
    .attributes = {{"activation", "none"}, {"channels_last", Attribute(false)}, {"dilation", 1}},
    .results = 2,
    .infer = infer_causal_conv,
    .eval = evaluate_causal_conv,
}};

}  // namespace lathe
