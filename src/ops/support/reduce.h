// SPDX-License-Identifier: MIT
// Shared by the reduce ops. An op is the list below plus its fold of one group of elements:
//
//   [](const auto& group) { a loop over group.each(…); returns the element }
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/small_vector.h"

namespace lathe {

// Operands x and axes (absent: all axes, or none with noop_with_empty_axes), keep_dims.
std::vector<OperandSpec> reduce_operands(TypeSet element_types);
std::vector<AttributeSpec> reduce_attributes();
// `fold` combines symbolic values of vectors; null if there is no such rule.
void infer_reduce(Infer& c, Dim (*fold)(const Dim& a, const Dim& b) = nullptr);

// Floats of up to 32 bits accumulate in f64: a sum is exact except for its last rounding, in any
// order. Integers wrap around in 64 bits.
template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

// Loops over the reduced axes of the operand, and the operand without them.
struct ReduceLoops {
  struct Loop {
    int64_t extent;
    int64_t stride;
  };
  SmallVector<int> axes;  // reduced axes, ascending
  SmallVector<Loop> reduced;
  int64_t count = 1;  // elements per group
  TensorView kept;    // with size 1 at the reduced axes
};
struct ReduceAttributes {
  explicit ReduceAttributes(const InstructionReader& c)
      : keeps_dims(c.boolean("keep_dims")), keeps_all(c.boolean("noop_with_empty_axes")) {}
  bool keeps_dims;
  bool keeps_all;  // without axes; else none
};
// Operand 1 of `c` holds the axes.
ReduceLoops reduce_loops(const ReduceAttributes& attributes, const OpOrigin& origin,
                         const OperandViews& c, const TensorView& x);
SmallVector<int64_t> reduced_dims(const ReduceAttributes& attributes, const ReduceLoops& loops);
// The result's view with size 1 at reduced axes if keep_dims is off.
TensorView with_reduced_axes(TensorView result, const ReduceLoops& loops);

// The elements that are folded into one.
template <class T>
class ReduceGroup {
 public:
  using Element = T;
  ReduceGroup(const T* first, const ReduceLoops& loops) : first_(first), loops_(loops) {}
  int64_t count() const { return loops_.count; }

  template <class F>
  void each(F&& f) const {
    if (loops_.count > 0) walk(first_, 0, f);
  }

 private:
  template <class F>
  void walk(const T* at, size_t level, F& f) const {
    if (level == loops_.reduced.size()) return f(*at);
    const auto [extent, stride] = loops_.reduced[level];
    if (level + 1 < loops_.reduced.size()) {
      for (int64_t i = 0; i < extent; ++i) walk(at + i * stride, level + 1, f);
    } else if (stride == 1) {
      for (int64_t i = 0; i < extent; ++i) f(at[i]);
    } else {
      for (int64_t i = 0; i < extent; ++i) f(at[i * stride]);
    }
  }
  const T* first_;
  const ReduceLoops& loops_;
};

// The folded value as an element; integers truncate and saturate.
template <class T, class R>
T folded_element(R value) {
  if constexpr (std::is_floating_point_v<R> && std::is_integral_v<T>) {
    constexpr auto kLow = static_cast<double>(std::numeric_limits<T>::lowest());
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<T>::max());
    if (!(value > kLow)) return std::numeric_limits<T>::lowest();
    return value < kHigh ? static_cast<T>(value) : std::numeric_limits<T>::max();
  } else {
    return static_cast<T>(value);
  }
}

// Calls fold(group) for every element of the result.
template <class Fold>
void eval_reduce(Evaluation& c, Fold&& fold) {
  const ElementType type = arithmetic_type(c.in(0).type);
  const ConvertedOperand x(c.in(0), type);
  const ReduceAttributes attributes(c);
  const ReduceLoops loops = reduce_loops(attributes, c, c, x.view());
  const ConvertedResult out(c.out(0, reduced_dims(attributes, loops)), type);
  const TensorView place = with_reduced_axes(out.view(), loops);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, loops.count));
  with_number_type(type, [&]<class T>(T*) {
    parallel_for(c.pool, place.count(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t flat = begin; flat < end; ++flat) {
        int64_t from = 0;
        int64_t to = 0;
        int64_t rest = flat;
        for (int axis = place.rank - 1; axis >= 0; --axis) {
          const int64_t index = rest % place.dims[axis];
          rest /= place.dims[axis];
          from += index * loops.kept.strides[axis];
          to += index * place.strides[axis];
        }
        const ReduceGroup<T> group(x.view().as<const T>() + from, loops);
        place.as<T>()[to] = folded_element<T>(fold(group));
      }
    });
  });
  out.store();
}

}  // namespace lathe
