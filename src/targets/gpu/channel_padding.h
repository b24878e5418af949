// SPDX-License-Identifier: MIT
// Convolutions of few channels, for libraries whose fast kernels take 16 bytes of channels: images
// and weights get channels of zeros. Of a convolution with strides of 2 four neighbouring pixels
// become one, with the channels of all: then its strides are 1, and the image has the zeros around.
#pragma once

#include <functional>

#include "ops/support/window.h"
#include "targets/gpu/kernel.h"
#include "targets/gpu/libraries/cudnn.h"

namespace lathe::gpu {

class ChannelPadding {
 public:
  // `weights`: [n, channels, spatial…], of 16-bit floats.
  ChannelPadding(const GpuDevice& device, const TensorView& weights,
                 const WindowAttributes& attributes);
  // Whether the images or weights have so few channels.
  static bool pays(const TensorView& view);
  // Room for padded images.
  static int64_t most_bytes(const TensorView& x, const TensorView& weights);

  Dims weight_dims(const TensorView& weights) const;
  // Copies the weights by parts to a view of weight_dims() that is zero.
  void pack(const TensorView& weights, const TensorView& to,
            const std::function<void(const TensorView&, const TensorView&)>& copy) const;

  struct Image {
    Dims dims;
    std::array<int64_t, 3> begins{};  // of x in it, per spatial axis
  };
  // The padded image, of at most `most` bytes, of a convolution of x whose result has these sizes,
  // and of whose packed weights c.w has the sizes; makes strides and pads those of its convolution.
  // nullopt, and nothing changes, if there is none.
  std::optional<Image> adjust(LibraryConvolution& c, const TensorView& x,
                              std::span<const int64_t> results, int64_t most) const;
  // Enqueues the copy of x to `place`, channels-last.
  TensorView pad(Stream& stream, const TensorView& x, const Image& image, void* place) const;

 private:
  static constexpr size_t kSpatial = 3;
  bool is_blocked() const { return block_ > 1; }

  const GpuDevice& device_;
  int64_t block_ = 1;                      // pixels per axis that become one
  int64_t channels_ = 8;                   // padded
  std::array<int64_t, kSpatial> shift_{};  // per axis, of the weights in their blocks
  std::optional<LazyCode> code_;
};

}  // namespace lathe::gpu
