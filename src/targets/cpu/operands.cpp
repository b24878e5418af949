// SPDX-License-Identifier: MIT
#include "targets/cpu/operands.h"

#include "tensor/convert.h"

namespace lathe::cpu {

ElementType element_of(const Instruction& instruction, size_t i) {
  return instruction.operands()[i]->type().element;
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

const TensorView& dense_view(const TensorView& view, Tensor& copy, TensorView& made) {
  if (view.is_dense()) return view;
  copy = Tensor(view.type, Dims(view.extents().begin(), view.extents().end()));
  made = copy.view();
  copy_elements(view, made);
  return made;
}

void* scratch(size_t bytes) {
  thread_local Tensor memory;
  if (memory.data() == nullptr || static_cast<size_t>(memory.byte_size()) < bytes) {
    memory = Tensor(ElementType::u8, {static_cast<int64_t>(bytes)});
  }
  return memory.data();
}

}  // namespace lathe::cpu
