// SPDX-License-Identifier: MIT
// Pooling: reduces every window of every plane [n, c] to one value.
#pragma once

#include "base/thread_pool.h"
#include "ops/support/convolution.h"

namespace lathe {

inline constexpr TypeSet kPoolTypes = kFloats;

// Infers result 0 of a pooling op with attribute kernel_shape; x is [n, c, spatial…].
std::vector<Dim> pool_dims(Infer& c);
// The attributes common to all pooling ops, and `extra`.
std::vector<AttributeSpec> pool_attributes(std::vector<AttributeSpec> extra = {});

// Global pooling: all spatial sizes become 1.
void infer_global_pool(Infer& c);

// One window: indices of its elements in the dense plane, row-major, without padding; and its
// number of positions inside the padded input.
struct PoolWindow {
  std::vector<int64_t> taps;
  int64_t padded = 0;
};

// Sets `window` for element `output` of a result plane, row-major.
void find_window(std::span<const WindowAxis> axes, int64_t output, PoolWindow& window);

// Loads plane [n, c] of a view, dense, as T.
template <class T>
void load_plane(const TensorView& view, int64_t n, int64_t c, T* to) {
  const auto last = static_cast<size_t>(view.rank - 1);
  const int64_t width = view.dims[last];
  for_each_index(view.extents().subspan(2, last - 2), [&](std::span<const int64_t> index) {
    int64_t offset = n * view.strides[0] + c * view.strides[1];
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * view.strides[i + 2];
    load_run({view.type, view.data, 0, 0, 0}, offset, view.strides[last], width, to);
    to += width;
  });
}

// Sets every result element to reduce(plane, window, element index in the dense result).
template <class T, class F>
void run_pool(Evaluation& c, F&& reduce) {
  const TensorView& x = c.in(0);
  const Integers& kernel = c.integers("kernel_shape");
  with_dense_result(c, [&](const TensorView& y) {
    const std::vector<WindowAxis> axes = window_axes(c, x, y, kernel);
    int64_t count = 1;
    int64_t extent = 1;
    for (const WindowAxis& axis : axes) {
      count *= axis.output;
      extent *= axis.input;
    }
    const int64_t channels = x.dims[1];
    parallel_for(c.pool, x.dims[0] * channels, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> plane(static_cast<size_t>(extent));
      PoolWindow window;
      std::vector<T> results(static_cast<size_t>(count));
      for (int64_t at = begin; at < end; ++at) {
        load_plane(x, at / channels, at % channels, plane.data());
        for (int64_t i = 0; i < count; ++i) {
          find_window(axes, i, window);
          results[static_cast<size_t>(i)] = reduce(plane.data(), window, at * count + i);
        }
        store_block<T>({y.type, y.data, at * count, 0, 1}, {0, 1, 0, count}, results.data(), 0);
      }
    });
  });
}

}  // namespace lathe
