// SPDX-License-Identifier: MIT
#include "targets/cpu/operands.h"

#include <algorithm>
#include <array>

#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe::cpu {

ElementType element_of(const Instruction& instruction, size_t i) {
  return instruction.operands()[i]->type().element;
}

bool is_single(const Instruction& instruction, int operand) {
  const Type& type = instruction.operands()[static_cast<size_t>(operand)]->type();
  return std::ranges::all_of(*type.dims, [](const Dim& dim) { return dim == Dim(1); });
}

std::string megabytes(size_t bytes) {
  constexpr double kMebi = 1 << 20;
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMebi);
}

std::vector<float> floats_of(const Tensor& tensor) {
  const Tensor dense = tensor.dense();
  std::vector<float> out(static_cast<size_t>(dense.count()));
  convert(ElementType::f32, out.data(), dense.type(), dense.data(), dense.count());
  return out;
}

namespace {

TensorView dense_like(const TensorView& view, ScratchLayout& workspace) {
  auto* memory = workspace.take<std::byte>(bytes_for(view.type, view.count()));
  check(memory != nullptr, ErrorKind::internal, "no workspace for a copy of {} elements",
        view.count());
  return dense_view(view.type, view.extents(), memory);
}

}  // namespace

TensorView channels_last_view(const TensorView& like, void* data) {
  TensorView view = like;
  view.data = data;
  int64_t stride = like.dims[1];
  view.strides[1] = 1;
  for (int axis = like.rank - 1; axis >= 2; --axis) {
    view.strides[static_cast<size_t>(axis)] = stride;
    stride *= like.dims[static_cast<size_t>(axis)];
  }
  view.strides[0] = stride;
  return view;
}

bool is_channels_last(const TensorView& view) {
  if (view.rank < 3 || view.is_dense()) return false;
  const TensorView last = channels_last_view(view, nullptr);
  for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
    if (view.dims[axis] != 1 && view.strides[axis] != last.strides[axis]) return false;
  }
  return true;
}

TensorView dense_strides_of(const TensorView& view) {
  return dense_view(view.type, view.extents(), nullptr);
}

void reserve_copy(const TensorView* view, ScratchLayout& workspace) {
  if (view == nullptr || view->is_dense()) return;
  workspace.take<std::byte>(bytes_for(view->type, view->count()));
}

TensorView dense_operand(const TensorView& view, ScratchLayout& workspace) {
  if (view.is_dense()) return view;
  const TensorView copy = dense_like(view, workspace);
  copy_elements(view, copy);
  return copy;
}

DenseResult::DenseResult(const TensorView& result, ScratchLayout& workspace)
    : result_(result), dense_(result.is_dense() ? result : dense_like(result, workspace)) {}

void reserve_floats(const TensorView& view, ScratchLayout& workspace) {
  reserve_copy(&view, workspace);
  workspace.take<float>(view.count());
}

namespace {

template <class T>
std::span<T> elements_as(ElementType type, const TensorView& view, ScratchLayout& workspace) {
  const TensorView dense = dense_operand(view, workspace);
  const int64_t count = view.count();
  T* to = workspace.take<T>(count);
  convert(type, to, dense.type, dense.data, count);
  return {to, static_cast<size_t>(count)};
}

}  // namespace

std::span<float> float_elements(const TensorView& view, ScratchLayout& workspace) {
  return elements_as<float>(ElementType::f32, view, workspace);
}

std::span<int32_t> int32_elements(const TensorView& view, ScratchLayout& workspace) {
  return elements_as<int32_t>(ElementType::i32, view, workspace);
}

const TensorView& dense_view(const TensorView& view, Tensor& copy, TensorView& made) {
  if (view.is_dense()) return view;
  copy = Tensor(view.type, Dims(view.extents().begin(), view.extents().end()));
  made = copy.view();
  copy_elements(view, made);
  return made;
}

namespace {

// True if the elements fill memory, in any order of the axes.
bool is_dense_in_some_order(const TensorView& view) {
  int64_t least = 0;  // the highest offset
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto a = static_cast<size_t>(axis);
    if (view.dims[a] == 0) return view.is_dense();
    if (view.dims[a] > 1 && view.strides[a] <= 0) return false;
    if (view.dims[a] > 1) least += (view.dims[a] - 1) * view.strides[a];
  }
  // Distinct offsets 0 … count - 1 fill it; strides of overlapping views repeat offsets.
  std::array<bool, kMaxRank> used{};
  int64_t expected = 1;
  for (int n = 0; n < view.rank; ++n) {
    bool found = false;
    for (int axis = 0; axis < view.rank && !found; ++axis) {
      const auto a = static_cast<size_t>(axis);
      if (used[a] || (view.dims[a] > 1 && view.strides[a] != expected)) continue;
      used[a] = found = true;
      expected *= view.dims[a];
    }
    if (!found) return false;
  }
  return least + 1 == view.count();
}

}  // namespace

bool same_strides(const TensorView& a, const TensorView& b) {
  for (size_t axis = 0; axis < static_cast<size_t>(a.rank); ++axis) {
    if (a.dims[axis] > 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

TensorView common_order(const TensorView& y) {
  return is_dense_in_some_order(y) ? y : dense_strides_of(y);
}

void* scratch(size_t bytes) {
  thread_local Tensor memory;
  if (memory.data() == nullptr || static_cast<size_t>(memory.byte_size()) < bytes) {
    memory = Tensor(ElementType::u8, {static_cast<int64_t>(bytes)});
  }
  return memory.data();
}

}  // namespace lathe::cpu
