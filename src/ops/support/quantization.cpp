// SPDX-License-Identifier: MIT
#include "ops/support/quantization.h"

#include <algorithm>

#include "ops/support/convolution.h"
#include "tensor/convert.h"

namespace lathe {

std::vector<OperandSpec> qlinear_operands(std::array<std::string_view, 8> names) {
  constexpr TypeSet kBytes = types(ElementType::i8, ElementType::u8);
  constexpr std::array<bool, 8> kScale = {false, true, false, false, true, false, true, false};
  std::vector<OperandSpec> list;
  for (size_t i = 0; i < names.size(); ++i)
    list.push_back({names[i], kScale[i] ? kFloats : kBytes});
  return list;
}

std::vector<OperandSpec> qlinear_product_operands(std::array<std::string_view, 8> names) {
  std::vector<OperandSpec> list = qlinear_operands(names);
  list.push_back({"bias", types(ElementType::i32), Arity::optional});
  return list;
}

void require_product_scales(Infer& c, const std::vector<Dim>& result) {
  for (const int i : {1, 4, 6}) {
    c.check(c.rank(i) <= std::max(static_cast<int>(result.size()), 1),
            "operand {} has rank {}, the result has {}", i, c.rank(i), result.size());
  }
}

void check_quantization(Infer& c) {
  const int64_t block = c.integer("block_size");
  c.check(block >= 0, "block_size is {}, expected at least 0", block);
  // A single scale and a single zero point may differ in rank: scalar or vector.
  const auto is_one = [&](int i) { return element_count(c.dims(i)) == Dim(1); };
  if (c.has(2) && !(is_one(1) && is_one(2))) {
    c.check(c.rank(2) == c.rank(1), "scale has rank {}, zero point has rank {}", c.rank(1),
            c.rank(2));
    for (int axis = 0; axis < c.rank(1); ++axis) {
      c.require_equal(c.dim(1, axis), c.dim(2, axis), "sizes of scale and zero point");
    }
  }
  if (block > 0) {
    const int axis = c.axis("axis", c.rank(0));
    c.check(c.rank(1) == c.rank(0), "block scale has rank {}, x has rank {}", c.rank(1), c.rank(0));
    for (int i = 0; i < c.rank(0); ++i) {
      const Dim expected = i == axis ? Dim::ceil_div(c.dim(0, i), block) : c.dim(0, i);
      c.require_equal(c.dim(1, i), expected, fmt::format("size of scale's axis {}", i));
    }
  } else if (c.rank(1) == 1 && !(c.dim(1, 0) == Dim(1)) && c.rank(0) > 0) {
    const int axis = c.axis("axis", c.rank(0));
    if (c.dim(1, 0).is_constant()) {
      c.require_equal(c.dim(1, 0), c.dim(0, axis), "number of scales and size of the axis");
    }
  } else {
    c.check(element_count(c.dims(1)) == Dim(1) || c.rank(0) == 0,
            "scale has rank {}, expected one element or a vector", c.rank(1));
  }
}

ScaleLayout::ScaleLayout(const Evaluation& c, const TensorView& x, const TensorView& scale) {
  const int64_t size = c.integer("block_size");
  if (size == 0 && scale.count() == 1) return;
  const auto axis = static_cast<size_t>(c.axis("axis", x.rank));
  extent_ = x.dims[axis];
  for (size_t i = axis + 1; i < static_cast<size_t>(x.rank); ++i) inner_ *= x.dims[i];
  blocked_ = size > 0;
  if (blocked_) {
    block_ = size;
    blocks_ = scale.dims[axis];
    c.check(blocks_ == (extent_ + size - 1) / size, "got {} blocks of {} for an axis of size {}",
            blocks_, size, extent_);
  } else {
    c.check(scale.count() == extent_, "got {} scales for an axis of size {}", scale.count(),
            extent_);
  }
}

Tensor float_tensor(const TensorView& view) {
  Tensor dense = dense_tensor(view);
  if (dense.type() == ElementType::f32) return dense;
  Tensor values(ElementType::f32, dense.dims());
  convert(ElementType::f32, values.data(), dense.type(), dense.data(), dense.count());
  return values;
}

std::vector<float> float_values(const TensorView& view) {
  const Tensor dense = dense_tensor(view);
  std::vector<float> values(static_cast<size_t>(dense.count()));
  convert(ElementType::f32, values.data(), dense.type(), dense.data(), dense.count());
  return values;
}

}  // namespace lathe
