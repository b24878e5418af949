// SPDX-License-Identifier: MIT
// Cumulative sums and products along an axis: cumsum, cumprod.
#pragma once

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "ops/support/indices.h"
#include "ops/support/reduce.h"
#include "ops/support/views.h"

namespace lathe {

std::vector<AttributeSpec> cumulative_attributes();

struct CumulativeSteps {
  int64_t count;
  int64_t source;  // elements
  int64_t target;
  bool exclusive;
};

template <class T, class Combine>
void cumulate_line(const CumulativeSteps& steps, int neutral, Combine&& combine, const T* source,
                   T* target) {
  auto total = static_cast<Accumulator<T>>(neutral);
  for (int64_t i = 0; i < steps.count; ++i) {
    const auto next = combine(total, static_cast<Accumulator<T>>(source[i * steps.source]));
    target[i * steps.target] = static_cast<T>(steps.exclusive ? total : next);
    total = next;
  }
}

inline constexpr int64_t kLines = 64;

// Up to kLines lines, whose elements are adjacent.
template <class T, class Combine>
void cumulate_lines(const CumulativeSteps& steps, int64_t lines, int neutral, Combine&& combine,
                    const T* source, T* target) {
  std::array<Accumulator<T>, kLines> totals;
  totals.fill(static_cast<Accumulator<T>>(neutral));
  for (int64_t i = 0; i < steps.count; ++i) {
    const T* from = source + i * steps.source;
    T* to = target + i * steps.target;
    for (int64_t line = 0; line < lines; ++line) {
      Accumulator<T>& total = totals[static_cast<size_t>(line)];
      const auto next = combine(total, static_cast<Accumulator<T>>(from[line]));
      to[line] = static_cast<T>(steps.exclusive ? total : next);
      total = next;
    }
  }
}

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
  // Lines beside each other in memory are combined together, kLines at a time, so that memory is
  // read in order.
  const bool beside =
      axis < rank - 1 && x.view().strides[rank - 1] == 1 && out.view().strides[rank - 1] == 1;
  const int64_t width = beside ? x.view().dims[rank - 1] : 1;
  const int64_t parts = (width + kLines - 1) / kLines;
  TensorView from = narrow(x.view(), axis, 0, 1);
  TensorView to = narrow(out.view(), axis, 0, 1);
  if (beside) {
    from = narrow(from, rank - 1, 0, 1);
    to = narrow(to, rank - 1, 0, 1);
  }
  const int64_t grain = std::max<int64_t>(1, 16384 / (extent * std::min(width, kLines)));
  with_number_type(type, [&]<class T>(T*) {
    parallel_for(c.pool, from.count() * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t flat = begin; flat < end; ++flat) {
        const int64_t first = flat % parts * kLines;
        int64_t rest = flat / parts;
        const T* source = from.as<const T>() + first;
        T* target = to.as<T>() + first;
        for (int at = rank - 1; at >= 0; --at) {
          const int64_t index = rest % from.dims[at];
          rest /= from.dims[at];
          source += index * from.strides[at];
          target += index * to.strides[at];
        }
        int64_t source_step = x.view().strides[axis];
        int64_t target_step = out.view().strides[axis];
        if (reverse) {
          source += (extent - 1) * source_step;
          target += (extent - 1) * target_step;
          source_step = -source_step;
          target_step = -target_step;
        }
        const CumulativeSteps steps{extent, source_step, target_step, exclusive};
        if (beside) {
          cumulate_lines(steps, std::min(kLines, width - first), neutral, combine, source, target);
        } else {
          cumulate_line(steps, neutral, combine, source, target);
        }
      }
    });
  });
  out.store();
}

}  // namespace lathe
