// SPDX-License-Identifier: MIT
#include "ops/support/convolution.h"

#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {

Tensor dense_tensor(const TensorView& view) {
  const Dims dims = dims_of(view);
  const Dims strides(view.strides.begin(), view.strides.begin() + view.rank);
  return Tensor(view.type, dims, strides, view.data, nullptr).dense();
}

std::vector<Dim> convolution_dims(Infer& c, int x, int w) {
  c.check(c.rank(x) >= 3 && c.rank(w) == c.rank(x),
          "x has rank {}, w has rank {}: expected equal ranks of at least 3", c.rank(x), c.rank(w));
  const int64_t group = c.integer("group");
  c.check(group > 0, "group is {}, expected at least 1", group);
  c.require_equal(c.dim(x, 1), c.dim(w, 1) * group, "channels of x and w");
  c.require_equal(Dim::mod(c.dim(w, 0), group), 0, "output channels as a multiple of group");
  std::vector<Dim> dims = {c.dim(x, 0), c.dim(w, 0)};
  const auto spatial =
      window_dims(c, std::span(c.dims(x)).subspan(2), std::span(c.dims(w)).subspan(2));
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

template <class T>
Convolution<T>::Convolution(const TensorView& x, const TensorView& y, std::vector<WindowAxis> axes,
                            int64_t groups)
    : x_(x), y_(y), axes_(std::move(axes)), groups_(groups) {
  this->batch = x.dims[0] * groups;
  this->m = y.dims[1] / groups;
  this->k = x.dims[1] / groups;
  this->n = 1;
  for (const WindowAxis& axis : axes_) {
    this->n *= axis.output;
    this->k *= axis.kernel;
  }
}

// Position in x for an output and a kernel position, or -1 outside.
template <class T>
int64_t Convolution<T>::source(const WindowAxis& axis, int64_t output, int64_t kernel) const {
  int64_t at = 0;
  if (transposed) {
    const int64_t scaled = output + axis.pad_begin - kernel * axis.dilation;
    if (scaled < 0 || scaled % axis.stride != 0) return -1;
    at = scaled / axis.stride;
  } else {
    at = output * axis.stride + kernel * axis.dilation - axis.pad_begin;
  }
  return at >= 0 && at < axis.input ? at : -1;
}

// im2col of `count` consecutive outputs along the last axis.
template <class T>
void Convolution<T>::gather_run(const WindowAxis& axis, int64_t kernel, int64_t output,
                                int64_t count, int64_t base, T* to) const {
  const MatrixView from{x_.type, x_.data, 0, 0, 0};
  const int64_t stride = x_.strides[static_cast<size_t>(x_.rank - 1)];
  std::fill(to, to + count, T{});
  if (transposed) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = source(axis, output + i, kernel);
      if (at >= 0) load_run(from, base + at * stride, stride, 1, to + i);
    }
    return;
  }
  // Outputs whose input is inside x: first <= i < last.
  const int64_t start = output * axis.stride + kernel * axis.dilation - axis.pad_begin;
  const int64_t first = start >= 0 ? 0 : std::min(count, (-start - 1) / axis.stride + 1);
  const int64_t last =
      start >= axis.input ? 0 : std::min(count, (axis.input - 1 - start) / axis.stride + 1);
  if (first >= last) return;
  load_run(from, base + (start + first * axis.stride) * stride, axis.stride * stride, last - first,
           to + first);
  if (x_zero == T{}) return;
  for (int64_t i = first; i < last; ++i) to[i] -= x_zero;
}

template <class T>
void Convolution<T>::load_a(int64_t b, const Block& block, T* to, int64_t pitch) const {
  MatrixView matrix = weights;
  const int64_t group = b % groups_;
  matrix.offset += group * weights_group;
  load_block(matrix, block, to, pitch);
  if (w_zero.empty()) return;
  for (int64_t r = 0; r < block.rows; ++r) {
    const T zero = w_zero[static_cast<size_t>(group * this->m + block.row + r)];
    for (int64_t c = 0; c < block.columns; ++c) to[r * pitch + c] -= zero;
  }
}

template <class T>
void Convolution<T>::load_b(int64_t b, const Block& block, T* to, int64_t pitch) const {
  const size_t rank = axes_.size();
  const WindowAxis& inner = axes_.back();
  const int64_t channels = x_.dims[1] / groups_;
  std::array<int64_t, kMaxRank> kernel{};
  std::array<int64_t, kMaxRank> output{};
  for (int64_t r = 0; r < block.rows; ++r) {
    int64_t rest = block.row + r;
    for (size_t i = rank; i-- > 0; rest /= axes_[i].kernel) kernel[i] = rest % axes_[i].kernel;
    const int64_t channel =
        (b / groups_) * x_.strides[0] + (b % groups_ * channels + rest) * x_.strides[1];
    for (int64_t done = 0; done < block.columns;) {
      rest = block.column + done;
      for (size_t i = rank; i-- > 0; rest /= axes_[i].output) output[i] = rest % axes_[i].output;
      const int64_t count = std::min(block.columns - done, inner.output - output[rank - 1]);
      int64_t base = channel;
      bool inside = true;
      for (size_t i = 0; i + 1 < rank && inside; ++i) {
        const int64_t at = source(axes_[i], output[i], kernel[i]);
        inside = at >= 0;
        base += at * x_.strides[i + 2];
      }
      T* run = to + r * pitch + done;
      if (inside) {
        gather_run(inner, kernel[rank - 1], output[rank - 1], count, base, run);
      } else {
        std::fill(run, run + count, T{});
      }
      done += count;
    }
  }
}

template <class T>
void Convolution<T>::store(int64_t b, const Block& block, const T* from, int64_t pitch) const {
  const int64_t first = b % groups_ * this->m;
  const MatrixView matrix{y_.type, y_.data, b / groups_ * y_.strides[0] + first * y_.strides[1],
                          y_.strides[1], 1};
  std::array<T, kGemmColumns> row;
  for (int64_t r = 0; r < block.rows; ++r) {
    T add{};
    if (bias != nullptr) {
      load_run({bias->type, bias->data, 0, 0, 0}, (first + block.row + r) * bias->strides[0], 1, 1,
               &add);
    }
    for (int64_t c = 0; c < block.columns; ++c)
      row[static_cast<size_t>(c)] = from[r * pitch + c] + add;
    store_block(matrix, {block.row + r, 1, block.column, block.columns}, row.data(), pitch);
  }
}

template class Convolution<float>;
template class Convolution<double>;
template class Convolution<uint32_t>;

}  // namespace lathe
