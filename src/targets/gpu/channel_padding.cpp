// SPDX-License-Identifier: MIT
#include "targets/gpu/channel_padding.h"

#include <algorithm>
#include <limits>

#include "ops/support/views.h"
#include "targets/gpu/expression.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kPadded = 8;
constexpr int64_t kBlocked = 16;  // channels of a block of pixels
constexpr int64_t kBlock = 2;

std::vector<int> channels_last(int rank) {
  std::vector<int> order{0};
  for (int axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }

// Two spatial axes of strides 2 whose padding does not depend on the image.
bool may_block(const TensorView& weights, const WindowAttributes& attributes) {
  const auto all = [](const Integers& list, int64_t value) {
    return std::ranges::all_of(list, [&](int64_t own) { return own == value; });
  };
  return weights.rank == 4 && weights.dims[1] * kBlock * kBlock <= kBlocked && !attributes.same &&
         all(attributes.strides, kBlock) && all(attributes.dilations, 1);
}

}  // namespace

ChannelPadding::ChannelPadding(const GpuDevice& device, const TensorView& weights,
                               const WindowAttributes& attributes)
    : device_(device) {
  if (may_block(weights, attributes)) {
    block_ = kBlock;
    channels_ = kBlocked;
    for (size_t axis = 0; axis < 2; ++axis) {
      const int64_t pad = attributes.valid ? 0 : attributes.pads[axis];
      shift_[axis] = (block_ - pad % block_) % block_;
    }
  } else {
    channels_ = kPadded;
  }
  code_.emplace(device,
                Source{"pad_channels",
                       fmt::format("typedef {} T;\n#define CHANNELS {}\n#define PADDED {}\n#define "
                                   "BLOCK {}\n{}",
                                   type_name(weights.type), weights.dims[1], channels_, block_,
                                   kernel_text("pad_channels.gpu"))},
                true);
}

bool ChannelPadding::pays(const TensorView& view) {
  return (view.type == ElementType::f16 || view.type == ElementType::bf16) && view.rank >= 3 &&
         view.rank <= static_cast<int>(kSpatial) + 2 && view.dims[1] > 0 && view.dims[1] < kPadded;
}

// Padding of a window is less than its size.
int64_t ChannelPadding::most_bytes(const TensorView& x, const TensorView& weights) {
  int64_t blocks = x.dims[0];
  for (int axis = 2; axis < x.rank; ++axis) {
    blocks *= blocks_of(x.dims[axis] + 2 * weights.dims[axis], kBlock) + kBlock;
  }
  const int64_t pixels = x.count() / x.dims[1];
  return bytes_for(x.type, std::max(pixels * kPadded, blocks * kBlocked));
}

Dims ChannelPadding::weight_dims(const TensorView& weights) const {
  Dims dims(weights.extents().begin(), weights.extents().end());
  dims[1] = channels_;
  for (size_t axis = 2; is_blocked() && axis < dims.size(); ++axis) {
    dims[axis] = blocks_of(dims[axis] + shift_[axis - 2], block_);
  }
  return dims;
}

// Tap t of an axis lies in block (t + shift) / 2, as its pixel (t + shift) % 2.
void ChannelPadding::pack(
    const TensorView& weights, const TensorView& to,
    const std::function<void(const TensorView&, const TensorView&)>& copy) const {
  const auto skip = [](TensorView& view, int axis, int64_t count) {
    view.data = static_cast<std::byte*>(view.data) +
                count * view.strides[axis] * (info(view.type).bits / 8);
    view.dims[axis] -= count;
  };
  for (int64_t part = 0; part < block_ * block_; ++part) {
    TensorView from = weights;
    TensorView into = to;
    skip(into, 1, part * weights.dims[1]);
    into.dims[1] = weights.dims[1];
    for (int axis = 2; is_blocked() && axis < weights.rank; ++axis) {
      const int64_t phase = axis == 2 ? part / block_ : part % block_;
      const int64_t shift = shift_[static_cast<size_t>(axis - 2)];
      const int64_t first = (phase - shift + block_) % block_;  // tap
      if (first >= from.dims[axis]) {
        from.dims[axis] = into.dims[axis] = 0;
        continue;
      }
      skip(from, axis, first);
      skip(into, axis, (first + shift) / block_);
      from.dims[axis] = blocks_of(from.dims[axis], block_);
      from.strides[axis] *= block_;
      into.dims[axis] = from.dims[axis];
    }
    if (!is_blocked()) into.dims = weights.dims;
    if (from.count() > 0) copy(from, into);
  }
}

std::optional<ChannelPadding::Image> ChannelPadding::adjust(LibraryConvolution& c,
                                                            const TensorView& x,
                                                            std::span<const int64_t> results,
                                                            int64_t most) const {
  Image image{Dims(x.extents().begin(), x.extents().end()), {}};
  image.dims[1] = channels_;
  LibraryConvolution changed = c;
  for (size_t axis = 0; is_blocked() && axis < 2; ++axis) {
    const int64_t before = c.pad_begin[axis] + shift_[axis];
    if (before % block_ != 0 || c.strides[axis] != block_) return std::nullopt;
    image.begins[axis] = before / block_;
    image.dims[axis + 2] = results[axis] - 1 + c.w.dims[axis + 2];
    changed.strides[axis] = 1;
    changed.pad_begin[axis] = changed.pad_end[axis] = 0;
  }
  const int64_t count = element_count(image.dims);
  if (count / channels_ > std::numeric_limits<int32_t>::max() || bytes_for(x.type, count) > most) {
    return std::nullopt;
  }
  c = changed;
  return image;
}

TensorView ChannelPadding::pad(Stream& stream, const TensorView& x, const Image& image,
                               void* place) const {
  const TensorView to = ordered_view(x.type, image.dims, channels_last(x.rank), place);
  const int64_t pixels = to.count() / channels_;
  std::array<int64_t, kSpatial> sizes{1, 1, 1};
  std::array<int64_t, kSpatial> inputs{1, 1, 1};
  std::array<int64_t, kSpatial> begins{};
  std::array<int64_t, kSpatial> strides{};
  for (int axis = 2; axis < x.rank; ++axis) {
    const auto at = static_cast<size_t>(static_cast<int>(kSpatial) - x.rank + axis);
    sizes[at] = to.dims[axis];
    inputs[at] = x.dims[axis];
    begins[at] = image.begins[static_cast<size_t>(axis - 2)];
    strides[at] = x.strides[axis];
  }
  Arguments arguments;
  arguments.add(x.data);
  arguments.add(place);
  arguments.add(pixels);
  arguments.add(sizes, kSpatial);
  arguments.add(inputs, kSpatial);
  arguments.add(begins, kSpatial);
  arguments.add(strides, kSpatial);
  arguments.add(x.strides[0]);
  arguments.add(x.strides[1]);
  constexpr int64_t kBlocksPerMultiprocessor = 16;
  const int64_t most = device_.driver().limits().multiprocessors * kBlocksPerMultiprocessor;
  const int64_t blocks = std::clamp<int64_t>((pixels + kThreads - 1) / kThreads, 1, most);
  device_.driver().launch(static_cast<GpuStream&>(stream).handle_for_other(),
                          {code_->get().function(),
                           {static_cast<uint32_t>(blocks), 1, 1},
                           kThreads,
                           arguments.bytes()});
  return to;
}

}  // namespace lathe::gpu
