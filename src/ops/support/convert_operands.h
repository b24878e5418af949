// SPDX-License-Identifier: MIT
// Operands and results converted to another element type: packed types to addressable elements,
// small floats to f32. Without a conversion the view is the operand's or result's own memory.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace lathe {

// The addressable type: i8 for i2 and i4, u8 for u2 and u4, f32 for f4e2m1, else the type itself.
ElementType unpacked_type(ElementType type);
// A C++ arithmetic type: unpacked_type(), and f32 for floats of 16 and 8 bits.
ElementType arithmetic_type(ElementType type);

class ConvertedOperand {
 public:
  ConvertedOperand(const TensorView& operand, ElementType as);
  const TensorView& view() const { return view_; }

 private:
  std::optional<Tensor> copy_;
  TensorView view_;
};

class ConvertedResult {
 public:
  ConvertedResult(const TensorView& result, ElementType as);
  const TensorView& view() const { return view_; }
  // Converts the values into the result; must be called last.
  void store() const;

 private:
  std::optional<Tensor> copy_;
  TensorView result_;
  TensorView view_;
};

// Addressable operands and results of movement ops.
class UnpackedOperand : public ConvertedOperand {
 public:
  explicit UnpackedOperand(const TensorView& operand)
      : ConvertedOperand(operand, unpacked_type(operand.type)) {}
};
class UnpackedResult : public ConvertedResult {
 public:
  explicit UnpackedResult(const TensorView& result)
      : ConvertedResult(result, unpacked_type(result.type)) {}
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
