// SPDX-License-Identifier: MIT
#include <algorithm>

#include "runtime/frame.h"

namespace lathe {

void LaunchMemory::clear() {
  std::fill(boxed_.begin(), boxed_.end(), Box{});
  used_ = false;
}

const TensorView& LaunchMemory::result(int i, std::span<const int64_t> dims) {
  const SlotId id = launch_.results[static_cast<size_t>(i)];
  TensorView& view = frame_.view(id);
  if (frame_.slot(id).kind != SlotKind::view) view = frame_.result_memory(id, dims);
  return view;  // else copied instead of viewed: allocated before the launch
}

const Box& LaunchMemory::box(int i) {
  const auto at = static_cast<size_t>(i);
  const SlotId id = launch_.operands[at];
  static const Box absent;
  if (id < 0) return absent;
  if (frame_.slot(id).kind == SlotKind::box) return frame_.box(id);
  if (boxed_[at].empty()) {
    const TensorView& from = frame_.view(id);
    const auto extents = from.extents();
    used_ = true;
    boxed_[at] =
        Box{Tensor(from.type, Dims(extents.begin(), extents.end()),
                   Dims(from.strides.begin(), from.strides.begin() + from.rank), from.data, nullptr)
                .clone()};
  }
  return boxed_[at];
}

void LaunchMemory::set_box(int i, Box box) {
  const SlotId id = launch_.results[static_cast<size_t>(i)];
  if (frame_.slot(id).kind == SlotKind::box) {
    frame_.view(id) = box.is_tensor() ? box.tensor().view() : TensorView{};
    frame_.box(id) = std::move(box);
    return;
  }
  copy_elements(box.tensor().view(), result(i, box.tensor().dims()));
}

}  // namespace lathe
