// SPDX-License-Identifier: MIT
// How cuDNN sees a convolution: 16-bit floats lie channels-last, f32 as its type.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ops/support/window.h"
#include "targets/gpu/channel_padding.h"
#include "targets/gpu/gemm_problem.h"

namespace lathe::gpu {

// True if the target lets such convolutions write channels-last.
bool is_channels_last(const GpuDevice& device, const Instruction& conv);

class ConvLibrary {
 public:
  // `bias`: the operand of the launch that the convolution adds, -1: none; `added`: its side.
  ConvLibrary(const GpuDevice& device, const Anchor& anchor, int bias,
              std::span<const size_t> added, const WindowAttributes& attributes,
              Constants constants);
  bool complete() const { return epilogue_.complete; }
  static int64_t workspace_bytes(const TensorView* x, const TensorView* w);

  enum class Way : uint8_t { none, sums, whole };
  // none: nothing was enqueued; sums: the epilogue remains to be computed.
  Way run(const LaunchArgs& args, const TensorView& x, const TensorView& w,
          const WindowAttributes& attributes) const;
  // Before launches with these shapes; data may be null.
  void expect(const LaunchArgs& args, const TensorView& x, const TensorView& w,
              const WindowAttributes& attributes) const;

 private:
  struct Call {
    LibraryConvolution convolution;
    bool whole = false;  // with the epilogue
    // What comes first: the padded image, dense copies.
    std::optional<ChannelPadding::Image> image;
    void* place = nullptr;  // of the image
    std::optional<TensorView> x_copy;
    std::optional<TensorView> w_copy;
  };

  void pack(const Tensor& weights);
  // nullopt: the library does not compute it.
  std::optional<Call> call_of(const LaunchArgs& args, TensorView x, TensorView w,
                              const WindowAttributes& attributes) const;
  LibraryTensor tensor(const TensorView& view) const;

  const GpuDevice& device_;
  ElementCopier copier_;
  LibraryEpilogue epilogue_;
  std::vector<int> sides_;  // operands of the launch
  int weights_;
  bool channels_last_;
  std::optional<ChannelPadding> padding_;  // of the input, and of packed weights
  Tensor packed_;                          // constant weights, channels-last
};

}  // namespace lathe::gpu
