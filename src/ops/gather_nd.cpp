// SPDX-License-Identifier: MIT
// x is [batch…, data…], indices [batch…, places…, k]: the last axis of `indices` holds coordinates
// of the first k data axes of x.
#include "base/thread_pool.h"
#include "ops/index_map.h"
#include "ops/op_call.h"
#include "ops/support/convert_operands.h"
#include "ops/support/extents.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

constexpr int64_t kGrainElements = 1 << 14;  // a chunk of one thread

std::vector<Dim> gathered(std::span<const Dim> x, std::span<const Dim> indices,
                          int64_t first_kept) {
  std::vector<Dim> dims(indices.begin(), indices.end() - 1);
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
  c.result(c.element(0), gathered(c.dims(0), c.dims(1), batch + *depth));
  propagate_elements(c, {0});
}

// The place of a slice of x: its batch axes are those of `row`, which counts places row-major.
int64_t offset_of_slice(const Evaluation& c, const TensorView& x, int64_t batch, int64_t row,
                        std::span<const int64_t> coordinates) {
  int64_t offset = 0;
  for (auto axis = static_cast<size_t>(batch); axis-- > 0;) {
    offset += row % x.dims[axis] * x.strides[axis];
    row /= x.dims[axis];
  }
  for (size_t k = 0; k < coordinates.size(); ++k) {
    const size_t axis = static_cast<size_t>(batch) + k;
    offset += checked_index(c, coordinates[k], x.dims[axis]) * x.strides[axis];
  }
  return offset;
}

// The view at the first place of its first `count` axes.
TensorView without_axes(TensorView view, int count) {
  for (int i = 0; i < count; ++i) view = select_axis(view, 0, 0);
  return view;
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
  const ScratchList<int64_t> indices = OpCall(c).values(1);
  const auto outer = places.extents().first(static_cast<size_t>(places.rank - 1));
  Extents dims;
  dims.add(outer);
  dims.add(x.view().extents().subspan(static_cast<size_t>(batch + depth)));
  const UnpackedResult out(c.out(0, dims.span()));
  if (out.view().count() == 0) return;
  const int64_t rows = element_count(outer);
  const int64_t rows_per_batch = rows / element_count(outer.first(static_cast<size_t>(batch)));
  const TensorView slice = without_axes(x.view(), static_cast<int>(batch + depth));
  const TensorView result = without_axes(out.view(), places.rank - 1);
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(slice.count(), 1));
  parallel_for(c.pool, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const std::span coordinates(indices.data() + row * depth, static_cast<size_t>(depth));
      const int64_t from = offset_of_slice(c, x.view(), batch, row / rows_per_batch, coordinates);
      int64_t to = 0;
      int64_t rest = row;
      for (auto axis = outer.size(); axis-- > 0; rest /= outer[axis]) {
        to += rest % outer[axis] * out.view().strides[axis];
      }
      copy_elements(shifted(slice, from), shifted(result, to));
    }
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
