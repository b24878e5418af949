// SPDX-License-Identifier: MIT
#include "ops/causal_conv.h"

#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "ops/float_result.h"
#include "ops/quantization.h"

namespace lathe {

void CausalConv::run(ThreadPool* pool) const {
  const Tensor input = float_tensor(x);
  const Tensor weights = float_tensor(w);
  const Tensor added = bias ? float_tensor(*bias) : Tensor();
  const Tensor before = past ? float_tensor(*past) : Tensor();
  const int64_t taps = weights.dims()[2];
  const int64_t channels = weights.dims()[0];
  const int64_t length = input.dims()[channels_last ? 1 : 2];
  const int64_t state = (taps - 1) * dilation;
  const FloatResult result(y);
  const FloatResult next(present);
  // Where position t of a channel lies, of `extent` positions.
  const auto at = [&](int64_t row, int64_t t, int64_t extent) {
    const int64_t b = row / channels;
    return channels_last ? (b * extent + t) * channels + row % channels : row * extent + t;
  };
  parallel_for(pool, input.dims()[0] * channels, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> line(static_cast<size_t>(state + length));
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
      for (int64_t t = 0; t < state; ++t) {
        next.data()[at(row, t, state)] = line[static_cast<size_t>(length + t)];
      }
    }
  });
  result.store();
  next.store();
}

}  // namespace lathe
