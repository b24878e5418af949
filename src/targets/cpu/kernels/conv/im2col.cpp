// SPDX-License-Identifier: MIT
// im2col: a matrix row holds all taps of an output. For GEMMs whose M or K would otherwise be too
// small.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/thread_scratch.h"
#include "targets/cpu/kernels/conv/conv_direct.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kVector = 16;

// Copies `count` runs of `bytes` with kVectors vectors and one that overlaps the end.
template <int kVectors>
void copy_runs(const std::byte* from, int64_t from_pitch, std::byte* to, int64_t to_pitch,
               int64_t bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i, from += from_pitch, to += to_pitch) {
    for (int v = 0; v < kVectors; ++v) std::memcpy(to + v * kVector, from + v * kVector, kVector);
    std::memcpy(to + bytes - kVector, from + bytes - kVector, kVector);
  }
}

void copy_runs(const std::byte* from, int64_t from_pitch, std::byte* to, int64_t to_pitch,
               int64_t bytes, int64_t count) {
  switch (bytes < kVector ? -1 : (bytes - 1) / kVector) {
    case 0:
      return copy_runs<0>(from, from_pitch, to, to_pitch, bytes, count);
    case 1:
      return copy_runs<1>(from, from_pitch, to, to_pitch, bytes, count);
    case 2:
      return copy_runs<2>(from, from_pitch, to, to_pitch, bytes, count);
    case 3:
      return copy_runs<3>(from, from_pitch, to, to_pitch, bytes, count);
    default:
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * to_pitch, from + i * from_pitch, static_cast<size_t>(bytes));
  }
}

// Contiguous taps of the outputs in one row.
struct Runs {
  const std::byte* row = nullptr;  // input position 0 of the row; null: all outside
  int64_t input = 0;               // positions of the row
  int64_t first = 0;               // read by the first output's first tap
  int64_t stride = 1;              // positions between outputs
  int64_t taps = 1;
  int64_t size = 1;  // bytes of a position
  int padding = 0;
};

void set_one(const Runs& runs, int64_t first, std::byte* to) {
  const int64_t before =
      runs.row == nullptr ? runs.taps : std::clamp<int64_t>(-first, 0, runs.taps);
  const int64_t until =
      runs.row == nullptr ? before : std::clamp<int64_t>(runs.input - first, before, runs.taps);
  std::memset(to, runs.padding, static_cast<size_t>(before * runs.size));
  if (until > before) {
    std::memcpy(to + before * runs.size, runs.row + (first + before) * runs.size,
                static_cast<size_t>((until - before) * runs.size));
  }
  std::memset(to + until * runs.size, runs.padding,
              static_cast<size_t>((runs.taps - until) * runs.size));
}

// Prefetches the cache lines that the same outputs of the next row read first, `distance` bytes
// further.
void prefetch_runs(const Runs& runs, int64_t count, int64_t distance) {
  constexpr int64_t kCacheLine = 64;
  const int64_t begin = std::max<int64_t>(runs.first, 0) * runs.size;
  const int64_t end = std::min(runs.input, runs.first + count * runs.stride) * runs.size;
  for (int64_t at = begin; at < end; at += kCacheLine) __builtin_prefetch(runs.row + distance + at);
}

void set_runs(const Runs& runs, int64_t count, std::byte* to, int64_t to_pitch) {
  // Outputs [low, high) read only inside the row.
  int64_t low = count, high = count;
  if (runs.row != nullptr) {
    low = runs.first >= 0 ? 0 : (-runs.first + runs.stride - 1) / runs.stride;
    low = std::min(low, count);
    const int64_t room = runs.input - runs.taps - runs.first;
    high = room < 0 ? low : std::clamp(room / runs.stride + 1, low, count);
  }
  for (int64_t i = 0; i < low; ++i) set_one(runs, runs.first + i * runs.stride, to + i * to_pitch);
  if (high > low) {
    copy_runs(runs.row + (runs.first + low * runs.stride) * runs.size, runs.stride * runs.size,
              to + low * to_pitch, to_pitch, runs.taps * runs.size, high - low);
  }
  for (int64_t i = high; i < count; ++i)
    set_one(runs, runs.first + i * runs.stride, to + i * to_pitch);
}

}  // namespace

// Writes rows `begin` to `end` of a pointwise convolution's x times the factors of their channels.
void DirectConvolution::scaled_rows(const void* image, const float* factors, std::byte* to,
                                    int64_t begin, int64_t end) const {
  const int64_t channels = original_.channels, size = padded_.element_bytes;
  const int64_t pitch = p_.channels * size;
  const VectorOps& vectors = vector_ops(isa_);
  const RowOps& rows = row_ops(isa_);
  const ScratchArray<float> wide(size == 4 ? 0 : channels);
  for (int64_t i = begin; i < end; ++i, to += pitch) {
    const auto* x = static_cast<const std::byte*>(image) + i * channels * size;
    if (size == 4) {
      rows.mul(reinterpret_cast<const float*>(x), factors, reinterpret_cast<float*>(to), channels);
    } else {
      vectors.from_bf16(reinterpret_cast<const uint16_t*>(x), wide.data(), channels);
      rows.mul(wide.data(), factors, wide.data(), channels);
      vectors.to_bf16(wide.data(), reinterpret_cast<uint16_t*>(to), channels);
    }
    std::memset(to + channels * size, 0, static_cast<size_t>(pitch - channels * size));
  }
}

// Writes im2col rows `begin` to `end`, zero-padded after the taps; row `begin` is at `to`.
void DirectConvolution::im2col_rows(const void* image, std::byte* to, int64_t begin, int64_t end,
                                    int padding) const {
  const auto& [depth, height, width] = original_.axes;
  const auto* x = static_cast<const std::byte*>(image);
  Runs runs;
  runs.input = width.input;
  runs.stride = width.stride;
  runs.taps = width.dilation == 1 ? width.kernel : 1;
  runs.size = original_.channels * padded_.element_bytes;
  runs.padding = padding ^ padded_.flip;  // flipped with the rest below
  const int64_t pitch = p_.channels * padded_.element_bytes;
  const int64_t bytes = original_.taps() * runs.size;
  for (int64_t i = begin; i < end;) {
    const int64_t od = i / width.output / height.output;
    const int64_t oh = i / width.output % height.output, ow = i % width.output;
    const int64_t count = std::min(end - i, width.output - ow);
    std::byte* at = to + (i - begin) * pitch;
    for (int64_t a = 0; a < depth.kernel; ++a) {
      const int64_t d = od * depth.stride + a * depth.dilation - depth.pad;
      for (int64_t b = 0; b < height.kernel; ++b) {
        const int64_t h = oh * height.stride + b * height.dilation - height.pad;
        const bool inside = d >= 0 && d < depth.input && h >= 0 && h < height.input;
        runs.row = inside ? x + (d * height.input + h) * width.input * runs.size : nullptr;
        for (int64_t e = 0; e < width.kernel; e += runs.taps, at += runs.taps * runs.size) {
          runs.first = ow * width.stride + e * width.dilation - width.pad;
          set_runs(runs, count, at, pitch);
          const bool is_last = b + height.stride >= height.kernel && e + runs.taps == width.kernel;
          if (is_last && inside && h + height.stride < height.input)
            prefetch_runs(runs, count, height.stride * width.input * runs.size);
        }
      }
    }
    for (int64_t r = 0; bytes < pitch && r < count; ++r)
      std::memset(at + r * pitch, 0, static_cast<size_t>(pitch - bytes));
    i += count;
  }
  if (!flips_) return;
  const auto flip = static_cast<unsigned char>(padded_.flip);
  auto* im2col = reinterpret_cast<unsigned char*>(to);
  for (int64_t i = 0; i < (end - begin) * pitch; ++i) im2col[i] ^= flip;
}

}  // namespace lathe::cpu
