// SPDX-License-Identifier: MIT
// Cumulative sums and products along an axis: cumsum, cumprod.
#pragma once

#include "ops/support/indices.h"
#include "ops/support/reduce.h"
#include "ops/support/views.h"

namespace lathe {

std::vector<AttributeSpec> cumulative_attributes();

// Element i of a line is the combination of elements 0 to i, or to i - 1 if exclusive (the first is
// then `neutral`), from the end if reverse.
template <class Combine>
void eval_cumulative(Evaluation& c, int neutral, Combine&& combine) {
  const ElementType type = arithmetic_type(c.in(0).type);
  const ConvertedOperand x(c.in(0), type);
  const int rank = x.view().rank;
  const int64_t named = single_value(c, 1);
  c.check(named >= -rank && named < rank, "axis {} is out of range for rank {}", named, rank);
  const int axis = static_cast<int>(named < 0 ? named + rank : named);
  const ConvertedResult out(c.out(0, x.view().extents()), type);
  const int64_t extent = x.view().dims[axis];
  if (out.view().count() == 0) return;
  const bool reverse = c.boolean("reverse");
  const bool exclusive = c.boolean("exclusive");
  const TensorView from = narrow(x.view(), axis, 0, 1);
  const TensorView to = narrow(out.view(), axis, 0, 1);
  with_number_type(type, [&]<class T>(T*) {
    for_each_index(from.extents(), [&](std::span<const int64_t> index) {
      const T* source = from.as<const T>() + offset_of(from, index);
      T* target = to.as<T>() + offset_of(to, index);
      auto total = static_cast<Accumulator<T>>(neutral);
      for (int64_t i = 0; i < extent; ++i) {
        const int64_t at = reverse ? extent - 1 - i : i;
        const auto next =
            combine(total, static_cast<Accumulator<T>>(source[at * x.view().strides[axis]]));
        target[at * out.view().strides[axis]] = static_cast<T>(exclusive ? total : next);
        total = next;
      }
    });
  });
  out.store();
}

}  // namespace lathe
