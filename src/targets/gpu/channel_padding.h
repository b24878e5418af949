// SPDX-License-Identifier: MIT
// Images of few channels with channels of zeros behind them, for libraries whose fast kernels take
// 16 bytes of channels.
#pragma once

#include "targets/gpu/kernel.h"

namespace lathe::gpu {

class ChannelPadding {
 public:
  // `view`: of images or weights [n, channels, spatial…], of 16-bit floats.
  explicit ChannelPadding(const GpuDevice& device, const TensorView& view);
  static bool pays(const TensorView& view);
  static int64_t padded_bytes(const TensorView& view);
  static constexpr int64_t channels() { return kChannels; }
  // Whether the kernel counts its pixels.
  static bool takes(const TensorView& x);
  // Enqueues the copy of x to `place`, channels-last.
  TensorView pad(Stream& stream, const TensorView& x, void* place) const;

 private:
  static constexpr int64_t kChannels = 8;
  const GpuDevice& device_;
  LazyCode code_;
};

}  // namespace lathe::gpu
