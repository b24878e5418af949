// SPDX-License-Identifier: MIT
#include "ops/support/indices.h"
#include "ops/support/reduce.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void eval_cumsum(Evaluation& c) {
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
  with_number_type(type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for_each_index(from.extents(), [&](std::span<const int64_t> index) {
      const T* source = from.as<const T>() + offset_of(from, index);
      T* target = to.as<T>() + offset_of(to, index);
      Accumulator<T> sum = 0;
      for (int64_t i = 0; i < extent; ++i) {
        const int64_t at = reverse ? extent - 1 - i : i;
        const auto element = static_cast<Accumulator<T>>(source[at * x.view().strides[axis]]);
        target[at * out.view().strides[axis]] = static_cast<T>(exclusive ? sum : sum + element);
        sum += element;
      }
    });
  });
  out.store();
}

}  // namespace

static const Register cumsum{{
    .name = "cumsum",
    .doc = "Cumulative sum along an axis; without the element itself if exclusive, from "
           "the end if reverse.",
    .operands = {{"x", kNumeric}, {"axis", kIndices}},
    .attributes = {{"exclusive", Attribute(false)}, {"reverse", Attribute(false)}},
    .infer =
        [](Infer& c) {
          c.require_equal(element_count(c.dims(1)), 1, "number of axes");
          c.result(c.element(0), c.dims(0));
          const std::vector<Dim>* elements = c.elements(0);
          if (elements == nullptr || c.rank(0) != 1) return;
          if (c.boolean("exclusive") || c.boolean("reverse")) return;
          c.try_result_elements([&] {
            std::vector<Dim> sums = *elements;
            for (size_t i = 1; i < sums.size(); ++i) sums[i] = sums[i] + sums[i - 1];
            return sums;
          });
        },
    .eval = eval_cumsum,
}};

}  // namespace lathe
