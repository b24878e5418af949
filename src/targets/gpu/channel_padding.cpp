// SPDX-License-Identifier: MIT
#include "targets/gpu/channel_padding.h"

#include <algorithm>
#include <limits>

#include "ops/support/views.h"
#include "targets/gpu/expression.h"

namespace lathe::gpu {
namespace {

constexpr int kSpatial = 3;

int64_t pixels_of(const TensorView& view) { return view.count() / view.dims[1]; }

}  // namespace

ChannelPadding::ChannelPadding(const GpuDevice& device, const TensorView& view)
    : device_(device),
      code_(
          device,
          {"pad_channels", fmt::format("typedef {} T;\n#define CHANNELS {}\n#define PADDED {}\n{}",
                                       type_name(view.type), view.dims[1], kChannels,
                                       kernel_text("pad_channels.gpu"))},
          true) {}

bool ChannelPadding::pays(const TensorView& view) {
  return (view.type == ElementType::f16 || view.type == ElementType::bf16) && view.rank >= 3 &&
         view.rank <= kSpatial + 2 && view.dims[1] > 0 && view.dims[1] < kChannels;
}

int64_t ChannelPadding::padded_bytes(const TensorView& view) {
  return bytes_for(view.type, pixels_of(view) * kChannels);
}

bool ChannelPadding::takes(const TensorView& x) {
  return pixels_of(x) <= std::numeric_limits<int32_t>::max();
}

TensorView ChannelPadding::pad(Stream& stream, const TensorView& x, void* place) const {
  Dims dims(x.extents().begin(), x.extents().end());
  dims[1] = kChannels;
  std::vector<int> order{0};
  for (int axis = 2; axis < x.rank; ++axis) order.push_back(axis);
  order.push_back(1);
  Arguments arguments;
  arguments.add(x.data);
  arguments.add(place);
  arguments.add(pixels_of(x));
  std::array<int64_t, kSpatial> sizes{1, 1, 1};
  std::array<int64_t, kSpatial> strides{};
  for (int axis = 2; axis < x.rank; ++axis) {
    const auto at = static_cast<size_t>(kSpatial - x.rank + axis);
    sizes[at] = x.dims[axis];
    strides[at] = x.strides[axis];
  }
  arguments.add(sizes, kSpatial);
  arguments.add(strides, kSpatial);
  arguments.add(x.strides[0]);
  arguments.add(x.strides[1]);
  constexpr int64_t kBlocksPerMultiprocessor = 16;
  const int64_t most = device_.driver().limits().multiprocessors * kBlocksPerMultiprocessor;
  const int64_t blocks = std::clamp<int64_t>((pixels_of(x) + kThreads - 1) / kThreads, 1, most);
  device_.driver().launch(
      static_cast<GpuStream&>(stream).handle(),
      {code_.get().function(), {static_cast<uint32_t>(blocks), 1, 1}, kThreads, arguments.bytes()});
  return ordered_view(x.type, dims, order, place);
}

}  // namespace lathe::gpu
