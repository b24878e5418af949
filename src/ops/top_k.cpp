// SPDX-License-Identifier: MIT
// Ties take the lower index first; NaN is greater than any number. Results are always sorted.
#include <algorithm>
#include <numeric>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/support/convert_operands.h"
#include "ops/support/indices.h"
#include "ops/support/number_order.h"
#include "ops/support/views.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

void infer_top_k(Infer& c) {
  const int axis = c.axis("axis", c.rank(0));
  c.require_equal(element_count(c.dims(1)), 1, "number of values of k");
  std::vector<Dim> dims = c.dims(0);
  Dim& extent = dims[static_cast<size_t>(axis)];
  if (const std::vector<Dim>* k = c.elements(1)) {
    c.require_less_equal(0, k->front(), "k");
    c.require_less_equal(k->front(), extent, "k and the size of the axis");
    extent = k->front();
  } else {
    extent = c.found("top_k", {0, extent.range().max});
  }
  c.result(c.element(0), dims);
  c.result(ElementType::i64, dims);
}

template <class T>
void top_row(const T* row, int64_t stride, int64_t k, bool largest, std::vector<int64_t>& order) {
  std::iota(order.begin(), order.end(), int64_t{0});
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t i, int64_t j) {
    const int order = compare(row[i * stride], row[j * stride]);
    if (order != 0) return largest ? order > 0 : order < 0;
    return i < j;
  });
}

void eval_top_k(Evaluation& c) {
  const ElementType type = arithmetic_type(c.in(0).type);
  const ConvertedOperand x(c.in(0), type);
  const int axis = c.axis("axis", x.view().rank);
  const int64_t extent = x.view().dims[axis];
  const int64_t k = single_value(c, 1);
  c.check(k >= 0 && k <= extent, "k is {}, the axis has size {}", k, extent);
  const TensorView groups = narrow(x.view(), axis, 0, std::min<int64_t>(extent, 1));
  Dims dims = dims_of(x.view());
  dims[static_cast<size_t>(axis)] = k;
  const ConvertedResult values(c.out(0, dims), type);
  const TensorView& places = c.out(1, dims);
  if (values.view().count() == 0) return;
  const bool largest = c.boolean("largest");
  std::vector<int64_t> order(static_cast<size_t>(extent));
  with_number_type(type, [&]<class T>(T*) {
    const int64_t stride = x.view().strides[axis];
    for_each_index(groups.extents(), [&](std::span<const int64_t> index) {
      const T* row = x.view().as<const T>() + offset_of(groups, index);
      T* value = values.view().as<T>() + offset_of(values.view(), index);
      int64_t* place = places.as<int64_t>() + offset_of(places, index);
      top_row(row, stride, k, largest, order);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        value[i * values.view().strides[axis]] = row[from * stride];
        place[i * places.strides[axis]] = from;
      }
    });
  });
  values.store();
}

}  // namespace

static const Register top_k{{
    .name = "top_k",
    .doc = "The k largest or smallest elements along an axis, in order, and their indices.",
    .operands = {{"x", kNumeric}, {"k", types(ElementType::i64)}},
    .attributes = {{"axis", -1}, {"largest", Attribute(true)}, {"sorted", Attribute(true)}},
    .on_host = {1},
    .results = 2,
    .infer = infer_top_k,
    .eval = eval_top_k,
    .tokens = tokens_beside_axis_attribute,
}};

}  // namespace lathe
