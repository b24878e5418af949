// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// The axes to drop, if inference has them.
std::optional<std::vector<int>> dropped_axes(Infer& c) {
  if (c.has(1)) return known_axes(c, 1, c.rank(0));
  std::vector<int> axes;
  for (int axis = 0; axis < c.rank(0); ++axis) {
    const Ternary one = equal(c.dim(0, axis), 1);
    if (one == Ternary::unknown) return std::nullopt;
    if (one == Ternary::yes) axes.push_back(axis);
  }
  return axes;
}

void infer_squeeze(Infer& c) {
  const auto axes = dropped_axes(c);
  if (axes) {
    std::vector<Dim> dims;
    for (int axis = 0; axis < c.rank(0); ++axis) {
      if (std::find(axes->begin(), axes->end(), axis) == axes->end()) {
        dims.push_back(c.dim(0, axis));
      } else {
        c.require_equal(c.dim(0, axis), 1, fmt::format("size of squeezed axis {}", axis));
      }
    }
    c.result(c.element(0), std::move(dims));
  } else {
    const std::optional<int64_t> count = c.has(1) ? known_length(c, 1) : std::nullopt;
    if (count) c.check(*count <= c.rank(0), "got {} axes, the rank is {}", *count, c.rank(0));
    auto dims = found_dims(c, count ? std::optional(c.rank(0) - *count) : std::nullopt, "squeeze");
    c.result(dims ? Type::tensor(c.element(0), std::move(*dims)) : Type::unranked(c.element(0)));
  }
  if (c.elements(0) != nullptr) c.result_elements(*c.elements(0));
}

void eval_squeeze(Evaluation& c) {
  const TensorView& x = c.in(0);
  Dims dims;
  const SmallVector<int> axes = c.has(1) ? axes_of(c, 1, x.rank) : SmallVector<int>{};
  for (int axis = 0; axis < x.rank; ++axis) {
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    c.check(!named || x.dims[axis] == 1, "axis {} has size {}, expected 1", axis, x.dims[axis]);
    const bool drop = c.has(1) ? named : x.dims[axis] == 1;
    if (!drop) dims.push_back(x.dims[axis]);
  }
  copy_flat(x, c.out(0, dims), c.pool);
}

}  // namespace

static const Register squeeze{{
    .name = "squeeze",
    .doc = "Removes the given axes of size 1; default: all axes of size 1.",
    .operands = {{"x"}, {"axes", types(ElementType::i64), Arity::optional}},
    .on_host = {1},
    .infer = infer_squeeze,
    .eval = eval_squeeze,
    .map = [](auto& m) { map_reshaped(m); },
    .view = view_reshaped,
}};

}  // namespace lathe
