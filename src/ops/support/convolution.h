// SPDX-License-Identifier: MIT
// Convolution as im2col and GEMM: per image and group, weights [channels, k] times a matrix of rows
// (input channel, kernel position) and columns (output position), gathered block by block.
#pragma once

#include <algorithm>

#include "ops/support/blocked_gemm.h"
#include "ops/support/views.h"
#include "ops/support/window.h"

namespace lathe {

template <class T>
class Convolution final : public BlockedGemm<T> {
 public:
  // x [n, channels, spatial…], y [n, out channels, spatial…], both of any strides.
  Convolution(const TensorView& x, const TensorView& y, std::vector<WindowAxis> axes,
              int64_t groups);

  // Element (output channel, input channel, kernel position…) of group g is at g * weights_group +
  // output channel * weights.row_stride + column * weights.column_stride.
  MatrixView weights;
  int64_t weights_group = 0;
  bool transposed = false;           // y = i * stride + k * dilation - pad, not x
  const TensorView* bias = nullptr;  // per output channel, in y's type
  T x_zero{};                        // subtracted from x; padding stays 0
  std::vector<T> w_zero;             // subtracted from weights, per output channel

  void load_a(int64_t b, const Block& block, T* to, int64_t pitch) const override;
  void load_b(int64_t b, const Block& block, T* to, int64_t pitch) const override;
  void store(int64_t b, const Block& block, const T* from, int64_t pitch) const override;

 private:
  int64_t source(const WindowAxis& axis, int64_t output, int64_t kernel) const;
  void gather_run(const WindowAxis& axis, int64_t kernel, int64_t output, int64_t count,
                  int64_t base, T* to) const;
  TensorView x_;
  TensorView y_;
  std::vector<WindowAxis> axes_;
  int64_t groups_;
};

extern template class Convolution<float>;
extern template class Convolution<double>;
extern template class Convolution<uint32_t>;

// The window of conv_transpose; if output_shape is given, the excess is padding.
struct TransposedWindow {
  TransposedWindow() = default;
  TransposedWindow(const InstructionReader& c, size_t axes);
  WindowAttributes attributes;
  Integers output_padding;
  bool fixed = false;  // output_shape is given
};
void transposed_axes(const TransposedWindow& window, const TensorView& x, const TensorView& y,
                     std::span<const int64_t> kernel, std::span<WindowAxis> axes);

// A dense copy of the view, or a tensor on its memory if it is already dense.
Tensor dense_tensor(const TensorView& view);

// Result shape of a convolution of operands `x` and `w`.
std::vector<Dim> convolution_dims(Infer& c, int x, int w);

// Calls `run` with the result's memory, or with a dense buffer that is copied there.
template <class F>
void with_dense_result(Evaluation& c, F&& run) {
  if (c.out().is_dense()) return run(c.out());
  const Tensor dense(c.out().type, dims_of(c.out()));
  run(dense.view());
  copy_elements(dense.view(), c.out());
}

// Evaluates conv and conv_integer; `adjust` sets what differs.
template <class T, class F>
void run_convolution(Evaluation& c, F&& adjust) {
  const Tensor w = dense_tensor(c.in(1));
  const int64_t groups = c.integer("group");
  const int64_t depth = w.count() / std::max<int64_t>(1, w.dims()[0]);
  c.check(w.dims()[0] % groups == 0, "{} output channels are not a multiple of {} groups",
          w.dims()[0], groups);
  with_dense_result(c, [&](const TensorView& y) {
    const auto kernel = c.in(1).extents().subspan(2);
    Convolution<T> product(c.in(0), y, window_axes(c, c.in(0), y, kernel), groups);
    product.weights = {w.type(), w.data(), 0, depth, 1};
    product.weights_group = product.m * depth;
    adjust(product);
    product.run(c.pool);
  });
}

}  // namespace lathe
