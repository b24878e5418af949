// SPDX-License-Identifier: MIT
// Operands and results under another element type: packed types get elements with addresses, small
// floats become f32. Where the type stays, it is the operand's or result's own memory.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace lathe {

// i8 for i2 and i4, u8 for u2 and u4, f32 for f4e2m1, else the type itself.
ElementType whole_type(ElementType type);
// What C++ computes with: also f32 for floats of 16 and 8 bits.
ElementType arithmetic_type(ElementType type);

class StagedOperand {
 public:
  StagedOperand(const TensorView& operand, ElementType as);
  const TensorView& view() const { return view_; }

 private:
  std::optional<Tensor> copy_;
  TensorView view_;
};

class StagedResult {
 public:
  StagedResult(const TensorView& result, ElementType as);
  const TensorView& view() const { return view_; }
  // The values become the result's: to be called last.
  void store() const;

 private:
  std::optional<Tensor> copy_;
  TensorView result_;
  TensorView view_;
};

// Operands and results of movement ops.
class WholeOperand : public StagedOperand {
 public:
  explicit WholeOperand(const TensorView& operand)
      : StagedOperand(operand, whole_type(operand.type)) {}
};
class WholeResult : public StagedResult {
 public:
  explicit WholeResult(const TensorView& result) : StagedResult(result, whole_type(result.type)) {}
};

// Calls f with a null pointer of the C++ type of an arithmetic type (bool: uint8_t).
template <class F>
void with_number_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::f32:
      return f(static_cast<float*>(nullptr));
    case ElementType::f64:
      return f(static_cast<double*>(nullptr));
    case ElementType::i8:
      return f(static_cast<int8_t*>(nullptr));
    case ElementType::i16:
      return f(static_cast<int16_t*>(nullptr));
    case ElementType::i32:
      return f(static_cast<int32_t*>(nullptr));
    case ElementType::i64:
      return f(static_cast<int64_t*>(nullptr));
    case ElementType::u16:
      return f(static_cast<uint16_t*>(nullptr));
    case ElementType::u32:
      return f(static_cast<uint32_t*>(nullptr));
    case ElementType::u64:
      return f(static_cast<uint64_t*>(nullptr));
    default:
      return f(static_cast<uint8_t*>(nullptr));
  }
}

}  // namespace lathe
