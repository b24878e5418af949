// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

#include "ops/support/indices.h"

namespace lathe {

Type joined_sequence(const Infer& c, const Type& sequence, const Type& item) {
  // Items of equal types keep their dims; others have unknown rank.
  const auto joined =
      join_types(sequence, Type::sequence(item), [](int axis) { return Dim(axis); });
  c.check(joined.has_value(), "{} cannot hold {}", sequence.to_string(), item.to_string());
  return *joined;
}

int64_t sequence_place(const Evaluation& c, int i, int64_t lowest, int64_t highest) {
  const int64_t place = single_value(c, i);
  c.check(place >= lowest && place <= highest, "position {} is out of range, expected {} to {}",
          place, lowest, highest);
  return place;
}

Box make_sequence(std::vector<Box> items) {
  return Box{std::make_shared<const std::vector<Box>>(std::move(items))};
}

void set_result(Evaluation& c, const Box& value) {
  if (value.is_tensor() && c.instruction().result()->type().is_ranked()) {
    copy_elements(value.tensor().view(), c.out(0, value.tensor().dims()));
  } else {
    c.set_box(0, value);
  }
}

}  // namespace lathe
