// SPDX-License-Identifier: MIT
#include "ops/support/indices.h"

#include "tensor/convert.h"

namespace lathe {

int64_t checked_index(const Evaluation& c, int64_t index, int64_t extent) {
  c.check(index >= -extent && index < extent, "index {} is out of range for an axis of size {}",
          index, extent);
  return index < 0 ? index + extent : index;
}

void check_reach(const Evaluation& c, const TensorView& x, const TensorView& indices, int axis) {
  for (int other = 0; other < x.rank; ++other) {
    c.check(other == axis || indices.dims[other] <= x.dims[other],
            "indices have size {} along axis {}, x has {}", indices.dims[other], other,
            x.dims[other]);
  }
}

int64_t single_value(const OpOrigin& origin, const OperandViews& c, int i) {
  const std::vector<int64_t> values = c.values(i);
  origin.check(values.size() == 1, "operand {} has {} values, expected one", i, values.size());
  return values.front();
}

int64_t single_value(const Evaluation& c, int i, int64_t least) {
  const int64_t value = single_value(c, i);
  c.check(value >= least, "{} is {}, expected at least {}",
          c.instruction().op().operands[static_cast<size_t>(i)].name, value, least);
  return value;
}

void load_values(const Evaluation& c, int i, int64_t first, std::span<int64_t> to) {
  load_values(c.in(i), first, to);
}

void load_values(const TensorView& x, int64_t first, std::span<int64_t> to) {
  if (x.is_dense() && !is_packed(x.type)) {
    convert(ElementType::i64, to.data(), x.type,
            x.as<const std::byte>() + first * (info(x.type).bits / 8), std::ssize(to));
  } else {
    for (int64_t& index : to) {
      int64_t place = 0;
      int64_t rest = first++;
      for (int axis = x.rank - 1; axis >= 0; --axis) {
        place += rest % x.dims[axis] * x.strides[axis];
        rest /= x.dims[axis];
      }
      index = load_int(x.type, x.data, place);
    }
  }
}

void load_indices(const Evaluation& c, int i, int64_t extent, int64_t first,
                  std::span<int64_t> to) {
  load_values(c, i, first, to);
  for (int64_t& index : to) index = checked_index(c, index, extent);
}

std::vector<int64_t> indices_of(const Evaluation& c, int i, int64_t extent) {
  std::vector<int64_t> indices(static_cast<size_t>(c.in(i).count()));
  load_indices(c, i, extent, 0, indices);
  return indices;
}

}  // namespace lathe
