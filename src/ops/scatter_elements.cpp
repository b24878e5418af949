// SPDX-License-Identifier: MIT
#include "ops/support/indices.h"
#include "ops/support/scatter.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_scatter_elements(Infer& c) {
  c.check(c.rank(0) == c.rank(1) && c.rank(1) == c.rank(2),
          "x has rank {}, indices {}, updates {}: expected equal ranks", c.rank(0), c.rank(1),
          c.rank(2));
  const int axis = c.axis("axis", c.rank(0));
  for (int other = 0; other < c.rank(0); ++other) {
    c.require_equal(c.dim(1, other), c.dim(2, other),
                    fmt::format("axis {} of indices and updates", other));
    if (other == axis) continue;
    c.require_less_equal(c.dim(1, other), c.dim(0, other), fmt::format("indices' axis {}", other));
  }
  infer_scatter(c);
}

void move_updates(const TensorView& updates, const std::vector<int64_t>& indices, int axis,
                  const TensorView& out) {
  with_raw_type(updates.type, [&]<class T>(T*) {
    size_t next = 0;
    for_each_index(updates.extents(), [&](std::span<const int64_t> at) {
      const int64_t shift = indices[next++] - at[static_cast<size_t>(axis)];
      out.as<T>()[offset_of(out, at) + shift * out.strides[axis]] =
          updates.as<T>()[offset_of(updates, at)];
    });
  });
}

void eval_scatter_elements(Evaluation& c) {
  const ScatterReduction reduction = scatter_reduction(c.text("reduction"));
  const ElementType type = scatter_type(c.in(0).type, reduction);
  const ConvertedOperand x(c.in(0), type);
  const ConvertedOperand updates(c.in(2), type);
  const int axis = c.axis("axis", x.view().rank);
  check_reach(c, x.view(), c.in(1), axis);
  c.check(std::ranges::equal(c.in(1).extents(), c.in(2).extents()), "got {} indices for {} updates",
          c.in(1).count(), c.in(2).count());
  const std::vector<int64_t> indices = indices_of(c, 1, x.view().dims[axis]);
  const ConvertedResult out(c.out(0, x.view().extents()), type);
  copy_elements(x.view(), out.view());
  if (reduction == ScatterReduction::none) {
    move_updates(updates.view(), indices, axis, out.view());
    return out.store();
  }
  size_t next = 0;
  for_each_index(updates.view().extents(), [&](std::span<const int64_t> place) {
    TensorView from = updates.view();
    TensorView to = out.view();
    for (size_t i = 0; i < place.size(); ++i) {
      const bool along = static_cast<int>(i) == axis;
      from = select_axis(from, 0, place[i]);
      to = select_axis(to, 0, along ? indices[next] : place[i]);
    }
    ++next;
    scatter_into(reduction, from, to);
  });
  out.store();
}

}  // namespace

static const Register scatter_elements{{
    .name = "scatter_elements",
    .doc = "x with updates[i, j, …] written at [i, j, …] with the coordinate of `axis` taken from "
           "`indices`.",
    .operands = {{"x", kAnyType, Arity::one, 'T'},
                 {"indices", kIndices},
                 {"updates", kAnyType, Arity::one, 'T'}},
    .attributes = {{"axis", 0}, {"reduction", "none"}},
    .infer = infer_scatter_elements,
    .eval = eval_scatter_elements,
}};

}  // namespace lathe
