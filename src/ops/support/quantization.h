// SPDX-License-Identifier: MIT
// Scales of elements: shared by quantize_linear and dequantize_linear.
#pragma once

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

inline constexpr TypeSet kQuantized =
    kFloat8 | kSmallInts |
    types(ElementType::i8, ElementType::u8, ElementType::i16, ElementType::u16, ElementType::i32);

// Operands of quantised a and b, each with scale and zero point, and those of y.
std::vector<OperandSpec> qlinear_operands(std::array<std::string_view, 8> names);
// Those of a product, with an optional bias (i32) of the exact sums.
std::vector<OperandSpec> qlinear_product_operands(std::array<std::string_view, 8> names);

// Checks that its scales have no more axes than its result.
void require_product_scales(Infer& c, const std::vector<Dim>& result);

// Checks scale (operand 1) and zero point (operand 2) against x, `axis` and `block_size`.
void check_quantization(Infer& c);

// One scale, one per position of an axis, or one per block of an axis. Indices of elements and
// scales are row-major.
class ScaleLayout {
 public:
  ScaleLayout(const Evaluation& c, const TensorView& x, const TensorView& scale);
  int64_t at(int64_t element) const {
    if (extent_ == 0) return 0;
    const int64_t position = element / inner_ % extent_ / block_;
    return blocked_ ? (element / inner_ / extent_ * blocks_ + position) * inner_ + element % inner_
                    : position;
  }

 private:
  int64_t extent_ = 0;  // size of the axis; 0: one scale
  int64_t inner_ = 1;
  int64_t block_ = 1;
  int64_t blocks_ = 1;
  bool blocked_ = false;
};

// The elements of a view, row-major, as f32 or i64.
std::vector<float> float_values(const TensorView& view);
// The elements as a dense f32 tensor, on the view's memory if that is already dense f32.
Tensor float_tensor(const TensorView& view);

}  // namespace lathe
