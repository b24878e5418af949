// SPDX-License-Identifier: MIT
// Views of parts or other shapes of memory, and elements by size: tools of movement ops.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// Bytes between consecutive elements (not for packed types).
int64_t element_bytes(ElementType type);

Dims dims_of(const TensorView& view);

// The view, moved by `elements`.
TensorView shifted(TensorView view, int64_t elements);
// Elements [begin, begin + extent) of one axis, at `step`.
TensorView narrow(TensorView view, int axis, int64_t begin, int64_t extent, int64_t step = 1);
// The view at one position of an axis, without that axis.
TensorView select_axis(TensorView view, int axis, int64_t index);
TensorView insert_axis(TensorView view, int axis);  // an axis of size 1
// Axis i of the result is axis permutation[i] of the view.
TensorView permuted(const TensorView& view, std::span<const int64_t> permutation);
// The view broadcast (stride 0) to these sizes, aligned at the last axis. Sizes must broadcast.
TensorView broadcast_to(const TensorView& view, std::span<const int64_t> dims);
// The elements in order with another shape, if the strides allow it.
std::optional<TensorView> reshaped(const TensorView& view, std::span<const int64_t> dims);
// A dense view of this shape on memory.
TensorView dense_view(ElementType type, std::span<const int64_t> dims, void* data);
// As dense_view(), with the axes in this order in memory, outermost first; empty: row-major.
TensorView ordered_view(ElementType type, std::span<const int64_t> dims,
                        std::span<const int> layout, void* data);
bool same_memory(const TensorView& a, const TensorView& b);  // data, shape and strides

// Copies all elements in row-major order between views of equal type and count.
void copy_flat(const TensorView& from, const TensorView& to, ThreadPool* pool = nullptr);
// Sets every element of `to` to the single element of `value`.
void fill_elements(const TensorView& value, const TensorView& to);
void clear_elements(const TensorView& to);  // to zeros, strings to empty ones

// An element as bytes, of any type and alignment.
template <size_t kBytes>
struct Raw {
  std::byte bytes[kBytes];
};

// Calls f with a null pointer of a type of the elements' size (std::string for strings), to move
// them.
template <class F>
void with_raw_type(ElementType type, F&& f) {
  if (type == ElementType::string) return f(static_cast<std::string*>(nullptr));
  switch (element_bytes(type)) {
    case 1:
      return f(static_cast<Raw<1>*>(nullptr));
    case 2:
      return f(static_cast<Raw<2>*>(nullptr));
    case 4:
      return f(static_cast<Raw<4>*>(nullptr));
    case 8:
      return f(static_cast<Raw<8>*>(nullptr));
    default:
      return f(static_cast<Raw<16>*>(nullptr));
  }
}

}  // namespace lathe
