// SPDX-License-Identifier: MIT
#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/requirements.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

void infer_tile(Infer& c) {
  require_rank(c, 1, 1);
  c.require_equal(c.dim(1, 0), c.rank(0), "number of repeats");
  const std::vector<Dim>* repeats = c.elements(1);
  std::vector<Dim> dims;
  for (int axis = 0; axis < c.rank(0); ++axis) {
    const Dim times = repeats != nullptr ? (*repeats)[static_cast<size_t>(axis)] : Dim(0);
    c.check(!times.is_constant() || *times.constant() >= 0, "axis {} is repeated {} times", axis,
            times.to_string());
    dims.push_back(repeats != nullptr ? c.dim(0, axis) * times : c.found("tile"));
  }
  c.result(c.element(0), std::move(dims));
  propagate_elements(c, {0});
}

void eval_tile(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const std::vector<int64_t> repeats = c.values(1);
  const int rank = x.view().rank;
  c.check(static_cast<int>(repeats.size()) == rank, "got {} repeats for rank {}", repeats.size(),
          rank);
  Dims dims;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t times = repeats[static_cast<size_t>(axis)];
    int64_t extent = 0;
    const bool fits = !__builtin_mul_overflow(x.view().dims[axis], times, &extent);
    c.check(fits && times >= 0, "axis {} of size {} is repeated {} times", axis,
            x.view().dims[axis], times);
    dims.push_back(extent);
  }
  const UnpackedResult out(c.out(0, dims));
  for_each_index(repeats, [&](std::span<const int64_t> copy) {
    TensorView place = out.view();
    for (int axis = 0; axis < rank; ++axis) {
      const int64_t extent = x.view().dims[axis];
      place = narrow(place, axis, copy[static_cast<size_t>(axis)] * extent, extent);
    }
    copy_elements(x.view(), place, c.pool);
  });
  out.store();
}

template <class M>
void map_tile(M& m) {
  auto from = m.coordinates(0);
  for (int axis = 0; axis < m.rank(0); ++axis) {
    const bool once = M::same(m.extent(0, axis), m.result_extent(axis));
    if (M::same(m.extent(0, axis), 0)) continue;
    from[static_cast<size_t>(axis)] =
        once ? m.index(axis) : M::mod(m.index(axis), m.extent(0, axis));
  }
  m.read(0, from);
}

}  // namespace

static const Register tile{{
    .name = "tile",
    .doc = "x repeated along each axis by the number in `repeats`.",
    .operands = {{"x"}, {"repeats", types(ElementType::i64)}},
    .on_host = {1},
    .infer = infer_tile,
    .eval = eval_tile,
    .map = [](auto& m) { map_tile(m); },
}};

}  // namespace lathe
