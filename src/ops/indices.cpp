// SPDX-License-Identifier: MIT
#include "ops/indices.h"

namespace lathe {

int64_t checked_index(const Evaluation& c, int64_t index, int64_t extent) {
  c.check(index >= -extent && index < extent, "index {} is out of range for an extent of {}", index,
          extent);
  return index < 0 ? index + extent : index;
}

void check_reach(const Evaluation& c, const TensorView& x, const TensorView& indices, int axis) {
  for (int other = 0; other < x.rank; ++other) {
    c.check(other == axis || indices.dims[other] <= x.dims[other],
            "indices have extent {} along axis {}, x has {}", indices.dims[other], other,
            x.dims[other]);
  }
}

int64_t single_value(const Evaluation& c, int i) {
  const std::vector<int64_t> values = c.values(i);
  c.check(values.size() == 1, "operand {} has {} values, expected one", i, values.size());
  return values.front();
}

std::vector<int64_t> indices_of(const Evaluation& c, int i, int64_t extent) {
  std::vector<int64_t> indices = c.values(i);
  for (int64_t& index : indices) index = checked_index(c, index, extent);
  return indices;
}

}  // namespace lathe
