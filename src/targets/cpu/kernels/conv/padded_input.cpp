// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/padded_input.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "targets/cpu/kernels/common/transpose.h"

namespace lathe::cpu {
namespace {

// Copies one row of the box: columns first to last are inside the input.
class PaddedRowCopier {
 public:
  PaddedRowCopier(const ConvProblem& p, const PaddedInput& padded, const ConvBox& box)
      : p_(p),
        padded_(padded),
        columns_(box.extent[2]),
        pitch_(p.groups * padded.group_pitch * padded.element_bytes),
        first_(std::clamp<int64_t>(-box.begin[2], 0, box.extent[2])),
        last_(std::clamp<int64_t>(p.axes[2].input - box.begin[2], first_, box.extent[2])),
        source_(box.begin[2] + first_) {}

  int64_t bytes() const { return columns_ * pitch_; }

  void outside(std::byte* to) const {
    std::memset(to, padded_.padding, static_cast<size_t>(bytes()));
  }

  // `row` is the input row, with depth and height merged.
  void inside(const void* x, int64_t row, std::byte* to) const {
    std::memset(to, padded_.padding, static_cast<size_t>(first_ * pitch_));
    std::memset(to + last_ * pitch_, padded_.padding,
                static_cast<size_t>((columns_ - last_) * pitch_));
    const int64_t width = p_.axes[2].input, size = padded_.element_bytes;
    const auto* from = static_cast<const std::byte*>(x);
    std::byte* start = to + first_ * pitch_;
    if (p_.x_layout == ActivationLayout::channels_last) {
      copy_channels_last(from + (row * width + source_) * p_.channels * size, start);
    } else {
      copy_channels_first(from + (row * width + source_) * size, start);
    }
    if (padded_.flip != 0) {
      auto* bytes = reinterpret_cast<unsigned char*>(start);
      const auto flip = static_cast<unsigned char>(padded_.flip);
      for (int64_t i = 0; i < (last_ - first_) * pitch_; ++i) bytes[i] ^= flip;
    }
  }

 private:
  void copy_channels_last(const std::byte* from, std::byte* to) const {
    const int64_t channels = p_.group_channels() * padded_.element_bytes;
    const int64_t pitch = padded_.group_pitch * padded_.element_bytes;
    const int64_t count = (last_ - first_) * p_.groups;
    if (channels == pitch) {
      std::memcpy(to, from, static_cast<size_t>(count * channels));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * pitch, from + i * channels, static_cast<size_t>(channels));
      std::memset(to + i * pitch + channels, 0, static_cast<size_t>(pitch - channels));
    }
  }

  void copy_channels_first(const std::byte* from, std::byte* to) const {
    const int64_t plane = p_.input_positions(), channels = p_.group_channels();
    const int64_t pitch = p_.groups * padded_.group_pitch, size = padded_.element_bytes;
    if (padded_.group_pitch != channels)
      std::memset(to, 0, static_cast<size_t>((last_ - first_) * pitch * size));
    const int64_t groups = padded_.group_pitch == channels ? 1 : p_.groups;
    const int64_t rows = groups == 1 && p_.groups > 1 ? p_.channels : channels;
    for (int64_t g = 0; g < groups; ++g) {
      transpose_matrix(padded_.element_bytes, from + g * channels * plane * size, plane,
                       to + g * padded_.group_pitch * size, pitch, rows, last_ - first_);
    }
  }

  const ConvProblem& p_;
  const PaddedInput& padded_;
  int64_t columns_;
  int64_t pitch_;  // bytes of a position
  int64_t first_, last_;
  int64_t source_;  // input column of the first column inside
};

}  // namespace

void copy_padded_box(const ConvProblem& p, const PaddedInput& padded, const ConvBox& box,
                     const void* x, void* to) {
  const PaddedRowCopier copier(p, padded, box);
  auto* row = static_cast<std::byte*>(to);
  for (int64_t d = box.begin[0]; d < box.begin[0] + box.extent[0]; ++d) {
    for (int64_t h = box.begin[1]; h < box.begin[1] + box.extent[1]; ++h, row += copier.bytes()) {
      const bool inside = d >= 0 && d < p.axes[0].input && h >= 0 && h < p.axes[1].input;
      if (inside) {
        copier.inside(x, d * p.axes[1].input + h, row);
      } else {
        copier.outside(row);
      }
    }
  }
}

}  // namespace lathe::cpu
