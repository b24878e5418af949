// SPDX-License-Identifier: MIT
#include "ops/support/convert_operands.h"

#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {
ElementType unpacked_type(ElementType type) {
  switch (type) {
    case ElementType::i2:
    case ElementType::i4:
      return ElementType::i8;
    case ElementType::u2:
    case ElementType::u4:
      return ElementType::u8;
    case ElementType::f4e2m1:
      return ElementType::f32;
    default:
      return type;
  }
}

ElementType arithmetic_type(ElementType type) {
  if (is_floating(type) && type != ElementType::f64) return ElementType::f32;
  return unpacked_type(type);
}

ConvertedOperand::ConvertedOperand(const TensorView& operand, ElementType as) : view_(operand) {
  if (operand.type == as) return;
  Tensor dense(operand.type, dims_of(operand));
  copy_elements(operand, dense.view());
  copy_.emplace(as, dims_of(operand));
  convert(as, copy_->data(), operand.type, dense.data(), dense.count());
  view_ = copy_->view();
}

ConvertedResult::ConvertedResult(const TensorView& result, ElementType as)
    : result_(result), view_(result) {
  if (result.type == as) return;
  copy_.emplace(as, dims_of(result));
  view_ = copy_->view();
}

void ConvertedResult::store() const {
  if (!copy_) return;
  Tensor dense(result_.type, dims_of(result_));
  convert(result_.type, dense.data(), copy_->type(), copy_->data(), copy_->count());
  copy_elements(dense.view(), result_);
}

}  // namespace lathe
