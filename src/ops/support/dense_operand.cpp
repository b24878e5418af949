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

DenseResult::DenseResult(const TensorView& result, ElementType type)
    : result_(result), view_(result) {
  if (result.type == type && result.is_dense()) return;
  buffer_ = ScratchBlock(bytes_for(type, result.count()));
  view_ = dense_view(type, result.extents(), buffer_.data());
}

void DenseResult::store() const {
  if (view_.data == result_.data) return;
  if (view_.type == result_.type) return copy_elements(view_, result_);
  const ScratchBlock converted(bytes_for(result_.type, count()));
  convert(result_.type, converted.data(), view_.type, view_.data, count());
  copy_elements(dense_view(result_.type, result_.extents(), converted.data()), result_);
}

}  // namespace lathe
