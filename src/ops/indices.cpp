// SPDX-License-Identifier: MIT
#include "ops/indices.h"

namespace lathe {

int64_t checked_index(const Evaluation& c, int64_t index, int64_t extent) {
  c.check(index >= -extent && index < extent, "index {} is out of range for an extent of {}", index,
          extent);
  return index < 0 ? index + extent : index;
}

std::vector<int64_t> indices_of(const Evaluation& c, int i, int64_t extent) {
  std::vector<int64_t> indices = c.values(i);
  for (int64_t& index : indices) index = checked_index(c, index, extent);
  return indices;
}

}  // namespace lathe
