// SPDX-License-Identifier: MIT
#include "ops/support/dense_operand.h"

#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {

DenseOperand::DenseOperand(const TensorView& operand, ElementType type) : view_(operand) {
  const int64_t count = operand.count();
  if (!operand.is_dense()) {
    copy_ = ScratchBlock(bytes_for(operand.type, count));
    view_ = dense_view(operand.type, operand.extents(), copy_.data());
    copy_elements(operand, view_);
  }
  if (operand.type == type) return;
  converted_ = ScratchBlock(bytes_for(type, count));
  convert(type, converted_.data(), operand.type, view_.data, count);
  view_ = dense_view(type, operand.extents(), converted_.data());
}

}  // namespace lathe
