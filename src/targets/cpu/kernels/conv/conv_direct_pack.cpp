// SPDX-License-Identifier: MIT
// Packed weights: the panels of each part. Integer types append a panel of ones and the column sums
// per part, then the weights' zero points. A GEMM with the ones adds up x under the window.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "targets/cpu/kernels/conv/conv_direct.h"

namespace lathe::cpu {
namespace {

// Strides of weights by output and channel, in elements.
struct WeightStrides {
  int64_t output, channel;
};
WeightStrides weight_strides(const ConvProblem& p) {
  if (p.transposed) return {p.taps(), p.group_outputs() * p.taps()};
  return {p.group_channels() * p.taps(), p.taps()};
}
int64_t first_weight(const ConvProblem& p, int64_t group, int64_t output) {
  const WeightStrides strides = weight_strides(p);
  return p.transposed ? group * p.group_channels() * strides.channel + output * strides.output
                      : (group * p.group_outputs() + output) * strides.output;
}

int32_t weight_shift(ElementType type) { return type == ElementType::u8 ? 128 : 0; }

// Packs one column of a panel: groups of k are contiguous, `pitch` apart.
template <class T, class F>
void pack_column(const T* from, int64_t channel_stride, int64_t channels,
                 const std::vector<int64_t>& taps, int64_t k_group, int64_t pitch, T* to, F&& f) {
  int64_t k = 0;
  for (const int64_t tap : taps) {
    for (int64_t c = 0; c < channels; ++c, ++k)
      to[k / k_group * pitch + k % k_group] = f(from[tap + c * channel_stride]);
  }
}

template <class F>
void with_bytes(ElementType type, const void* data, F&& f) {
  type == ElementType::u8 ? f(static_cast<const uint8_t*>(data))
                          : f(static_cast<const int8_t*>(data));
}

}  // namespace

std::string DirectConvolution::packing_id() const {
  const auto& [depth, height, width] = original_.axes;
  std::string id = fmt::format(
      "conv {} {}x{}x{}x{}x{} in {} groups, panels of {} by {}, blocks of {}", to_string(p_.x_type),
      p_.outputs, original_.group_channels(), depth.kernel, height.kernel, width.kernel, p_.groups,
      kernel_->panel_columns, kernel_->k_group, parts_.empty() ? 0 : parts_[0].k);
  for (size_t i = 0; original_.transposed && i < kConvAxes; ++i) {
    const ConvAxis& a = original_.axes[i];
    id += fmt::format(", transposed {} / {} / {} to {}", a.stride, a.dilation, a.pad, a.output);
  }
  return id;
}

size_t DirectConvolution::packed_bytes() const {
  size_t bytes = panel_bytes_;
  if (!has_integer_sums(type_)) return bytes;
  for (const Part& part : parts_) bytes += static_cast<size_t>(panel_stride(part) + sums_bytes());
  return bytes + static_cast<size_t>(sums_bytes());
}

void DirectConvolution::pack_panel(const ConvWeights& weights, const Part& part, int64_t group,
                                   int64_t panel, std::byte* to) const {
  const WeightStrides strides = weight_strides(original_);
  const int64_t columns = kernel_->panel_columns, k_group = kernel_->k_group;
  const int64_t count = std::min(columns, p_.group_outputs() - panel * columns);
  std::memset(to, 0, static_cast<size_t>(panel_stride(part)));
  for (size_t b = 0; b < part.blocks.size(); ++b) {
    std::byte* block = to + static_cast<int64_t>(b) * packed_panel_bytes(*kernel_, part.k);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = first_weight(original_, group, panel * columns + i);
      const auto column = [&]<class T>(const T* from, auto f) {
        pack_column(from + first, strides.channel, original_.group_channels(), part.blocks[b].taps,
                    k_group, columns * k_group, reinterpret_cast<T*>(block) + i * k_group, f);
      };
      const auto same = [](auto w) { return w; };
      if (type_ == GemmType::f32) {
        column(static_cast<const float*>(weights.data), same);
      } else if (type_ == GemmType::bf16) {
        column(static_cast<const uint16_t*>(weights.data), same);
      } else {
        // u8 - 128 equals a flip of the sign bit.
        const int flip = weight_shift(weights.type);
        column(static_cast<const uint8_t*>(weights.data),
               [=](uint8_t w) { return static_cast<uint8_t>(w ^ flip); });
      }
    }
  }
}

void DirectConvolution::pack_sums(const ConvWeights& weights, std::byte* to) const {
  const WeightStrides strides = weight_strides(original_);
  const int32_t shift = weight_shift(weights.type);
  for (const Part& part : parts_) {
    std::byte* ones = to;
    std::memset(ones, 0, static_cast<size_t>(panel_stride(part)));
    for (size_t b = 0; b < part.blocks.size(); ++b, ones += packed_panel_bytes(*kernel_, part.k)) {
      for (int64_t k = 0; k < part.k; ++k) {
        const int64_t group = k / kernel_->k_group;
        ones[group * kernel_->panel_columns * kernel_->k_group + k % kernel_->k_group] =
            std::byte{1};
      }
    }
    to += panel_stride(part);
    auto* sums = reinterpret_cast<int32_t*>(to);
    for (int64_t o = 0; o < p_.outputs; ++o) {
      const int64_t first = first_weight(original_, o / p_.group_outputs(), o % p_.group_outputs());
      int32_t sum = 0;
      with_bytes(weights.type, weights.data, [&](const auto* w) {
        for (const Block& block : part.blocks)
          for (const int64_t tap : block.taps)
            for (int64_t c = 0; c < original_.group_channels(); ++c)
              sum += w[first + c * strides.channel + tap] - shift;
      });
      sums[o] = sum;
    }
    to += sums_bytes();
  }
  auto* zeros = reinterpret_cast<int32_t*>(to);
  for (int64_t o = 0; o < p_.outputs; ++o)
    zeros[o] = (weights.zero == nullptr ? 0 : weights.zero[o]) - shift;
}

void DirectConvolution::pack(const ConvWeights& weights, void* to, ThreadPool* pool) const {
  if (weights.data == nullptr) {
    ConvWeights placed = weights;
    placed.data = &kNothing;
    return pack(placed, to, pool);
  }
  const bool fits = has_integer_sums(type_)
                        ? weights.type == ElementType::i8 || weights.type == ElementType::u8
                        : weights.type == p_.x_type;
  check(fits, ErrorKind::invalid_argument, "convolution {}: weights have type {}, expected {}",
        p_.text(), to_string(weights.type),
        has_integer_sums(type_) ? "i8 or u8" : to_string(p_.x_type));
  auto* bytes = static_cast<std::byte*>(to);
  for (const Part& part : parts_) {
    const int64_t stride = panel_stride(part);
    const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, stride));
    parallel_for(pool, p_.groups * group_panels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack_panel(weights, part, i / group_panels(), i % group_panels(),
                   bytes + part.packed + i * stride);
    });
  }
  if (has_integer_sums(type_)) pack_sums(weights, bytes + panel_bytes_);
}

}  // namespace lathe::cpu
