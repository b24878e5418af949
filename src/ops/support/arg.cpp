// SPDX-License-Identifier: MIT
#include "ops/support/arg.h"

#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// NaN counts as the extreme value.
template <class T>
bool beats(T x, T best, bool greatest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (best != best) return false;
    if (x != x) return true;
  }
  return greatest ? x > best : x < best;
}

}  // namespace

std::vector<AttributeSpec> arg_attributes() {
  return {{"axis", 0}, {"keep_dims", Attribute(true)}, {"select_last", Attribute(false)}};
}

void infer_arg(Infer& c) {
  std::vector<Dim> dims = c.dims(0);
  const int axis = c.axis("axis", c.rank(0));
  c.require_less_equal(1, c.dim(0, axis), "size of the axis");
  if (c.boolean("keep_dims")) {
    dims[static_cast<size_t>(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  c.result(ElementType::i64, std::move(dims));
}

void eval_arg(Evaluation& c, bool greatest) {
  const ConvertedOperand x(c.in(0), arithmetic_type(c.in(0).type));
  const int axis = c.axis("axis", x.view().rank);
  const int64_t extent = x.view().dims[axis];
  const int64_t stride = x.view().strides[axis];
  const TensorView groups = narrow(x.view(), axis, 0, 1);
  Dims dims = dims_of(groups);
  if (!c.boolean("keep_dims")) dims.erase(dims.begin() + axis);
  TensorView out = c.out(0, dims);
  if (!c.boolean("keep_dims")) out = insert_axis(out, axis);
  c.check(extent > 0 || out.count() == 0, "axis {} has size {}, expected at least 1", axis, extent);
  const bool last = c.boolean("select_last");
  with_number_type(x.view().type, [&]<class T>(T*) {
    for_each_index(out.extents(), [&](std::span<const int64_t> index) {
      const T* row = x.view().as<const T>() + offset_of(groups, index);
      int64_t best = 0;
      for (int64_t i = 1; i < extent; ++i) {
        const T now = row[i * stride];
        const bool tie = last && !beats(row[best * stride], now, greatest);
        if (tie || beats(now, row[best * stride], greatest)) best = i;
      }
      out.as<int64_t>()[offset_of(out, index)] = best;
    });
  });
}

}  // namespace lathe
