// SPDX-License-Identifier: MIT
#include <algorithm>

#include "runtime/frame.h"

namespace lathe {

LaunchContext::LaunchContext(Frame& frame, const Launch& launch)
    : frame_(frame), launch_(launch), boxed_(launch.operands.size()) {
  instruction_ = launch.instruction;
  inputs_.resize(launch.operands.size());
  outputs_.resize(launch.results.size());
}

void LaunchContext::prepare() {
  pool = frame_.run_context().pool;
  step = frame_.run_context().step;
  for (size_t i = 0; i < launch_.operands.size(); ++i) {
    const SlotId id = launch_.operands[i];
    // Not boxes: the queue may be writing them.
    if (id >= 0 && frame_.slot(id).kind != SlotKind::box) inputs_[i] = frame_.view(id);
    if (!boxed_[i].empty()) boxed_[i] = Box{};
  }
  for (size_t i = 0; i < launch_.results.size(); ++i) {
    const SlotId id = launch_.results[i];
    const SlotKind kind = frame_.slot(id).kind;
    if (kind != SlotKind::late && kind != SlotKind::box) outputs_[i] = frame_.view(id);
  }
}

void LaunchContext::execute() {
  switch (launch_.kind) {
    case LaunchKind::dims: {
      const auto& values =
          std::get<std::vector<Dim>>(*find_attribute(launch_.instruction->attributes(), "values"));
      auto* target = outputs_[0].as<int64_t>();
      for (size_t i = 0; i < values.size(); ++i) {
        target[static_cast<int64_t>(i) * outputs_[0].strides[0]] = frame_.dim(launch_.values[i]);
      }
      return;
    }
    case LaunchKind::state_append:
      frame_.run_context().states[static_cast<size_t>(launch_.state)]->write_rows(outputs_[0],
                                                                                  inputs_[1]);
      return;
    case LaunchKind::state_replace:
      copy_elements(inputs_[1], outputs_[0]);
      return;
    case LaunchKind::copy:
      copy_elements(inputs_[0], outputs_[0]);
      return;
    default:
      break;
  }
  // Earlier launches have written the boxes by now.
  for (size_t i = 0; i < launch_.operands.size(); ++i) {
    const SlotId id = launch_.operands[i];
    if (id < 0 || frame_.slot(id).kind != SlotKind::box) continue;
    const Box& operand = frame_.box(id);
    inputs_[i] = operand.is_tensor() ? operand.tensor().view() : TensorView{};
  }
  for (size_t i = 0; i < launch_.results.size(); ++i) {
    const Slot& slot = frame_.slot(launch_.results[i]);
    if (slot.kind != SlotKind::box || !slot.ranked || launch_.defines_symbols) continue;
    std::array<int64_t, kMaxRank> dims;
    for (size_t axis = 0; axis < slot.dims.size(); ++axis) dims[axis] = frame_.dim(slot.dims[axis]);
    outputs_[i] = frame_.result_memory(launch_.results[i], {dims.data(), slot.dims.size()});
  }
  launch_.kernel->launch(*this);
}

const TensorView& LaunchContext::out(int i, std::span<const int64_t> dims) {
  const auto at = static_cast<size_t>(i);
  const SlotId id = launch_.results[at];
  if (frame_.slot(id).kind == SlotKind::view) return outputs_[at];  // copied instead of viewed
  outputs_[at] = frame_.result_memory(id, dims);
  return outputs_[at];
}

const Box& LaunchContext::box(int i) const {
  const auto at = static_cast<size_t>(i);
  const SlotId id = launch_.operands[at];
  static const Box absent;
  if (id < 0) return absent;
  if (frame_.slot(id).kind == SlotKind::box) return frame_.box(id);
  if (boxed_[at].empty()) {
    const TensorView& from = inputs_[at];
    const auto extents = from.extents();
    boxed_[at] =
        Box{Tensor(from.type, Dims(extents.begin(), extents.end()),
                   Dims(from.strides.begin(), from.strides.begin() + from.rank), from.data, nullptr)
                .clone()};
  }
  return boxed_[at];
}

void LaunchContext::set_box(int i, Box box) {
  const SlotId id = launch_.results[static_cast<size_t>(i)];
  if (frame_.slot(id).kind == SlotKind::box) {
    frame_.view(id) = box.is_tensor() ? box.tensor().view() : TensorView{};
    frame_.box(id) = std::move(box);
    return;
  }
  copy_elements(box.tensor().view(), out(i, box.tensor().dims()));
}

}  // namespace lathe
