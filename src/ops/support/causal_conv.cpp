// SPDX-License-Identifier: MIT
#include "ops/support/causal_conv.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/support/dense_operand.h"
#include "ops/support/f32_result.h"

namespace lathe {

CausalConvAttributes::CausalConvAttributes(const InstructionReader& c)
    : dilation(c.integer("dilation")),
      channels_last(c.boolean("channels_last")),
      silu(c.text("activation") != "none"),
      window(c.integer("state_window")) {
  if (c.has_attribute("rows_first")) rows_first = c.boolean("rows_first");
}

void CausalConv::run(ThreadPool* pool) const {
  const auto floats = [](const TensorView& view) { return DenseOperand(view, ElementType::f32); };
  const DenseOperand input = floats(x);
  const DenseOperand weights = floats(w);
  const DenseOperand added = bias ? floats(*bias) : DenseOperand();
  const DenseOperand before =
      past ? floats(window > 0 ? select_axis(*past, 0, window - 1) : *past) : DenseOperand();
  const int64_t taps = weights.extent(2);
  const int64_t channels = weights.extent(0);
  const int64_t length = input.extent(channels_last ? 1 : 2);
  const int64_t state = (taps - 1) * dilation;
  const F32Result result(y);
  const F32Result next(present);
  const int64_t slots = std::max<int64_t>(window, 1);
  // Offset of position t of a channel with `extent` positions.
  const auto at = [&](int64_t row, int64_t t, int64_t extent) {
    const int64_t b = row / channels;
    return channels_last ? (b * extent + t) * channels + row % channels : row * extent + t;
  };
  parallel_for(pool, input.extent(0) * channels, 16, [&](int64_t begin, int64_t end) {
    const ScratchArray<float> line(state + length);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t t = 0; t < state; ++t) {
        line[static_cast<size_t>(t)] = past ? before.as<float>()[at(row, t, state)] : 0.0F;
      }
      for (int64_t t = 0; t < length; ++t) {
        line[static_cast<size_t>(state + t)] = input.as<float>()[at(row, t, length)];
      }
      const float* tap = weights.as<float>() + row % channels * taps;
      for (int64_t t = 0; t < length; ++t) {
        float sum = bias ? added.as<float>()[row % channels] : 0.0F;
        for (int64_t j = 0; j < taps; ++j) {
          sum += tap[j] * line[static_cast<size_t>(t + j * dilation)];
        }
        result.data()[at(row, t, length)] = silu ? sum / (1 + std::exp(-sum)) : sum;
      }
      // Slots without a position stay zero. Without any position, the last slot holds the past.
      for (int64_t slot = std::clamp<int64_t>(slots - length, 0, slots - 1); slot < slots; ++slot) {
        float* to = next.data() + slot * (next.count() / slots);
        const int64_t seen = length - (slots - 1 - slot);
        for (int64_t t = 0; t < state; ++t) {
          to[at(row, t, state)] = line[static_cast<size_t>(seen + t)];
        }
      }
    }
  });
  result.store();
  next.store();
}

}  // namespace lathe
