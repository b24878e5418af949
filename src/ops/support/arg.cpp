// SPDX-License-Identifier: MIT
#include "ops/support/arg.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

constexpr int64_t kGrain = 16384;  // elements

// NaN counts as the extreme value.
template <class T>
bool beats(T x, T best, bool greatest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (best != best) return false;
    if (x != x) return true;
  }
  return greatest ? x > best : x < best;
}

struct Row {
  int64_t extent;
  int64_t stride;
  bool greatest;
  bool last;  // of ties
};

template <class T>
int64_t arg_of(const T* x, const Row& row) {
  int64_t place = 0;
  T best = *x;
  for (int64_t i = 1; i < row.extent; ++i) {
    const T now = x[i * row.stride];
    if (row.last ? beats(best, now, row.greatest) : !beats(now, best, row.greatest)) continue;
    best = now;
    place = i;
  }
  return place;
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
  const Row row{extent, stride, greatest, c.boolean("select_last")};
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, extent));
  with_number_type(x.view().type, [&]<class T>(T*) {
    parallel_for(c.pool, out.count(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        int64_t from = 0, to = 0, rest = group;
        for (int i = out.rank; i-- > 0; rest /= out.dims[i]) {
          from += rest % out.dims[i] * groups.strides[i];
          to += rest % out.dims[i] * out.strides[i];
        }
        out.as<int64_t>()[to] = arg_of(x.view().as<const T>() + from, row);
      }
    });
  });
}

}  // namespace lathe
