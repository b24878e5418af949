// SPDX-License-Identifier: MIT
#include "ops/support/views.h"

#include <algorithm>

#include "base/error.h"
#include "ops/evaluation.h"
#include "tensor/copy.h"

namespace lathe {

Dims dims_of(const TensorView& view) { return {view.extents().begin(), view.extents().end()}; }

int64_t element_bytes(ElementType type) {
  if (type == ElementType::string) return sizeof(std::string);
  const int bits = info(type).bits;
  check(bits >= 8, ErrorKind::internal, "elements of {} have no addresses", to_string(type));
  return bits / 8;
}

TensorView shifted(TensorView view, int64_t elements) {
  if (elements != 0) view.data = view.as<std::byte>() + elements * element_bytes(view.type);
  return view;
}

TensorView narrow(TensorView view, int axis, int64_t begin, int64_t extent, int64_t step) {
  const int64_t offset = extent == 0 ? 0 : begin * view.strides[axis];
  view.dims[axis] = extent;
  view.strides[axis] *= step;
  return shifted(view, offset);
}

TensorView select_axis(TensorView view, int axis, int64_t index) {
  view = shifted(view, index * view.strides[axis]);
  for (int i = axis; i + 1 < view.rank; ++i) {
    view.dims[i] = view.dims[i + 1];
    view.strides[i] = view.strides[i + 1];
  }
  --view.rank;
  return view;
}

TensorView insert_axis(TensorView view, int axis) {
  for (int i = view.rank; i > axis; --i) {
    view.dims[i] = view.dims[i - 1];
    view.strides[i] = view.strides[i - 1];
  }
  view.dims[axis] = 1;
  view.strides[axis] = 0;
  ++view.rank;
  return view;
}

TensorView permuted(const TensorView& view, std::span<const int64_t> permutation) {
  TensorView out = view;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const auto from = static_cast<size_t>(permutation[i]);
    out.dims[i] = view.dims[from];
    out.strides[i] = view.strides[from];
  }
  return out;
}

TensorView broadcast_to(const TensorView& view, std::span<const int64_t> dims) {
  TensorView out = view;
  out.rank = static_cast<int>(dims.size());
  const int lead = out.rank - view.rank;
  for (int i = 0; i < out.rank; ++i) {
    const bool own = i >= lead && view.dims[i - lead] == dims[static_cast<size_t>(i)];
    out.dims[i] = dims[static_cast<size_t>(i)];
    out.strides[i] = own ? view.strides[i - lead] : 0;
  }
  return out;
}

TensorView ordered_view(ElementType type, std::span<const int64_t> dims,
                        std::span<const int> layout, void* data) {
  TensorView view = dense_view(type, dims, data);
  int64_t stride = 1;
  for (size_t i = layout.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(layout[i]);
    view.strides[axis] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(dims[axis], 1), &stride)) stride = 1;
  }
  return view;
}

TensorView dense_view(ElementType type, std::span<const int64_t> dims, void* data) {
  TensorView view;
  view.type = type;
  view.rank = static_cast<int>(dims.size());
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    view.dims[axis] = dims[axis];
    view.strides[axis] = stride;
    // The sizes of an empty view may overflow as a product; its strides are unused.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(dims[axis], 1), &stride)) stride = 1;
  }
  view.data = data;
  return view;
}

bool same_memory(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.rank != b.rank || a.type != b.type) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i] || (a.dims[i] != 1 && a.strides[i] != b.strides[i])) return false;
  }
  return true;
}

// Matches groups of axes with equal element counts on both sides, from the back. A group with one
// stride throughout can be split into any sizes.
std::optional<TensorView> reshaped(const TensorView& view, std::span<const int64_t> dims) {
  TensorView out = dense_view(view.type, dims, view.data);
  if (view.is_dense()) return out;
  int from = view.rank - 1;
  int to = out.rank - 1;
  while (from >= 0 || to >= 0) {
    while (from >= 0 && view.dims[from] == 1) --from;
    int64_t stride = from >= 0 ? view.strides[from] : 1;
    int64_t source =
        from >= 0 ? view.dims[from] : 1;  // elements of the source group not yet assigned
    if (from < 0) {
      while (to >= 0) out.strides[to--] = 1;  // size 1
      break;
    }
    // Extends the source group by all axes that are contiguous with it.
    int last = from;
    while (last > 0 && (view.dims[last - 1] == 1 || view.strides[last - 1] == stride * source)) {
      source *= view.dims[--last];
    }
    int64_t placed = 1;
    while (to >= 0 && source % (placed * out.dims[to]) == 0) {
      out.strides[to] = stride * placed;
      placed *= out.dims[to--];
    }
    if (placed != source) return std::nullopt;
    from = last - 1;
  }
  return out;
}

void copy_flat(const TensorView& from, const TensorView& to, ThreadPool* pool) {
  if (from.count() == 0) return;
  if (const auto source = reshaped(from, to.extents())) return copy_elements(*source, to, pool);
  if (const auto target = reshaped(to, from.extents())) return copy_elements(from, *target, pool);
  const Tensor dense(from.type, dims_of(from));
  copy_elements(from, dense.view(), pool);
  copy_elements(dense_view(from.type, to.extents(), dense.data()), to, pool);
}

void fill_elements(const TensorView& value, const TensorView& to) {
  const Dims ones(static_cast<size_t>(to.rank), 1);
  copy_elements(broadcast_to(dense_view(value.type, ones, value.data), to.extents()), to);
}

void clear_elements(const TensorView& to) {
  const Tensor zero(to.type, {1});
  fill_elements(zero.view(), to);
}

}  // namespace lathe
