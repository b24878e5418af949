// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

void infer_expand(Infer& c) {
  if (const std::vector<Dim>* shape = c.elements(1)) {
    for (const Dim& value : *shape) {
      c.check(!value.is_constant() || *value.constant() >= 0, "shape value {} is negative",
              value.to_string());
    }
    c.result(c.element(0), c.broadcast(c.dims(0), *shape));
    return propagate_elements(c, {0});
  }
  const std::optional<int64_t> length = known_length(c, 1);
  if (!length) return c.result(Type::unranked(c.element(0)));
  const int64_t rank = std::max<int64_t>(*length, c.rank(0));
  c.check(rank <= kMaxRank, "the result has rank {}, at most {} is supported", rank, kMaxRank);
  std::vector<Dim> dims;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t own = axis - (rank - c.rank(0));
    const bool requested = axis >= rank - *length;
    // Axes that cannot be 1 keep their size, as do axes beyond the requested rank.
    const bool keeps_size =
        own >= 0 && (!requested || equal(c.dim(0, static_cast<int>(own)), 1) == Ternary::no);
    dims.push_back(keeps_size ? c.dim(0, static_cast<int>(own)) : c.found("expand"));
  }
  c.result(c.element(0), std::move(dims));
}

Dims target_dims(const Evaluation& c) {
  const TensorView& x = c.in(0);
  const Dims shape = c.values(1);
  Dims dims(std::max(shape.size(), static_cast<size_t>(x.rank)), 1);
  std::copy(shape.rbegin(), shape.rend(), dims.rbegin());
  for (int axis = 0; axis < x.rank; ++axis) {
    int64_t& extent = dims[dims.size() - static_cast<size_t>(x.rank - axis)];
    if (extent != x.dims[axis] && extent != 1 && x.dims[axis] != 1) {
      c.fail("{} does not broadcast to [{}]", to_string(x.type, x.extents()),
             fmt::join(shape, ", "));
    }
    if (extent == 1) extent = x.dims[axis];
  }
  return dims;
}

template <class M>
void map_expand(M& m) {
  auto from = m.coordinates(0);
  const int rank = m.rank(0);
  const int before = m.result_rank() - rank;
  for (int axis = 0; axis < rank; ++axis) {
    if (M::same(m.extent(0, axis), 1)) continue;
    if (!M::same(m.extent(0, axis), m.result_extent(axis + before))) return m.stop();
    from[static_cast<size_t>(axis)] = m.index(axis + before);
  }
  m.read(0, from);
}

}  // namespace

static const Register expand{{
    .name = "expand",
    .doc = "x broadcast with a tensor of shape `shape`.",
    .operands = {{"x"}, {"shape", kIndices}},
    .on_host = {1},
    .infer = infer_expand,
    .eval =
        [](Evaluation& c) {
          const UnpackedOperand x(c.in(0));
          const UnpackedResult out(c.out(0, target_dims(c)));
          copy_elements(broadcast_to(x.view(), out.view().extents()), out.view(), c.pool);
          out.store();
        },
    .map = [](auto& m) { map_expand(m); },
    .view = affine_view,
}};

}  // namespace lathe
