// SPDX-License-Identifier: MIT
// x is [batch…, data…], indices [batch…, places…, k]: the last axis of `indices` holds coordinates
// of the first k data axes of x.
#include "ops/index_map.h"
#include "ops/support/convert_operands.h"
#include "ops/support/indices.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

template <class D>
std::vector<D> gathered(std::span<const D> x, std::span<const D> indices, int64_t first_kept) {
  std::vector<D> dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), x.begin() + first_kept, x.end());
  return dims;
}

void infer_gather_nd(Infer& c) {
  const int64_t batch = c.integer("batch_dims");
  c.check(c.rank(1) >= 1 && batch >= 0 && batch < c.rank(1) && batch < std::max(c.rank(0), 1),
          "batch_dims is {}, out of range for ranks {} and {}", batch, c.rank(0), c.rank(1));
  for (int axis = 0; axis < batch; ++axis) {
    c.require_equal(c.dim(0, axis), c.dim(1, axis), fmt::format("batch axis {}", axis));
  }
  const std::optional<int64_t> depth = c.dims(1).back().constant();
  if (!depth) return c.result(Type::unranked(c.element(0)));
  c.check(batch + *depth <= c.rank(0),
          "indices have {} coordinates and {} batch axes, x has rank {}", *depth, batch, c.rank(0));
  c.result(c.element(0), gathered<Dim>(c.dims(0), c.dims(1), batch + *depth));
  propagate_elements(c, {0});
}

void eval_gather_nd(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const TensorView& places = c.in(1);
  const int64_t batch = c.integer("batch_dims");
  const int64_t depth = places.dims[places.rank - 1];
  c.check(batch + depth <= x.view().rank,
          "indices have {} coordinates and {} batch axes, x has "
          "rank {}",
          depth, batch, x.view().rank);
  const std::vector<int64_t> indices = c.values(1);
  const UnpackedResult out(
      c.out(0, gathered<int64_t>(x.view().extents(), places.extents(), batch + depth)));
  if (out.view().count() == 0) return;
  size_t next = 0;
  for_each_index(places.extents().first(static_cast<size_t>(places.rank - 1)),
                 [&](std::span<const int64_t> place) {
                   TensorView from = x.view();
                   TensorView to = out.view();
                   for (const int64_t at : place) to = select_axis(to, 0, at);
                   for (int64_t axis = 0; axis < batch; ++axis) {
                     const int64_t at = place[static_cast<size_t>(axis)];
                     from = select_axis(from, 0, checked_index(c, at, from.dims[0]));
                   }
                   for (int64_t k = 0; k < depth; ++k) {
                     from = select_axis(from, 0, checked_index(c, indices[next++], from.dims[0]));
                   }
                   copy_elements(from, to);
                 });
  out.store();
}

template <class M>
void map_gather_nd(M& m) {
  const auto depth = M::constant(m.extent(1, m.rank(1) - 1));
  if (!depth) return m.stop();
  const auto batch = static_cast<int>(m.integer("batch_dims"));
  const int places = m.rank(1) - 1;
  auto from = m.coordinates(0);
  for (int axis = 0; axis < m.rank(0); ++axis) {
    auto& place = from[static_cast<size_t>(axis)];
    const int k = axis - batch;
    if (k < 0) {
      place = m.index(axis);
    } else if (k >= *depth) {
      place = m.index(places + k - static_cast<int>(*depth));
    } else {
      auto coordinate = m.coordinates(1);
      for (int i = 0; i < places; ++i) coordinate[static_cast<size_t>(i)] = m.index(i);
      coordinate[static_cast<size_t>(places)] = k;
      place = wrapped(m, m.element(1, coordinate), m.extent(0, axis));
    }
  }
  m.read(0, from);
}

}  // namespace

static const Register gather_nd{{
    .name = "gather_nd",
    .doc = "The slices of x at the coordinates in the last axis of `indices`.",
    .operands = {{"x"}, {"indices", types(ElementType::i64)}},
    .attributes = {{"batch_dims", 0}},
    .infer = infer_gather_nd,
    .eval = eval_gather_nd,
    .map = [](auto& m) { map_gather_nd(m); },
}};

}  // namespace lathe
