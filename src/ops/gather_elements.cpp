// SPDX-License-Identifier: MIT
#include "ops/index_map.h"
#include "ops/support/convert_operands.h"
#include "ops/support/indices.h"
#include "ops/support/scratch_tensor.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_gather_elements(Infer& c) {
  c.check(c.rank(0) == c.rank(1), "x has rank {}, indices have rank {}", c.rank(0), c.rank(1));
  const int axis = c.axis("axis", c.rank(0));
  for (int other = 0; other < c.rank(0); ++other) {
    if (other == axis) continue;
    c.require_less_equal(c.dim(1, other), c.dim(0, other), fmt::format("indices' axis {}", other));
  }
  c.result(c.element(0), c.dims(1));
  propagate_elements(c, {0});
}

void eval_gather_elements(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const int axis = c.axis("axis", x.view().rank);
  check_reach(c, x.view(), c.in(1), axis);
  ScratchList<int64_t> indices;
  indices.resize(static_cast<size_t>(c.in(1).count()));
  load_indices(c, 1, x.view().dims[axis], 0, {indices.data(), indices.size()});
  const UnpackedResult out(c.out(0, c.in(1).extents()));
  with_raw_type(x.view().type, [&]<class T>(T*) {
    size_t next = 0;
    for_each_index(out.view().extents(), [&](std::span<const int64_t> place) {
      std::array<int64_t, kMaxRank> index;
      std::copy(place.begin(), place.end(), index.begin());
      index[static_cast<size_t>(axis)] = indices[next++];
      const int64_t from = offset_of(x.view(), {index.data(), place.size()});
      out.view().as<T>()[offset_of(out.view(), place)] = x.view().as<T>()[from];
    });
  });
  out.store();
}

}  // namespace

static const Register gather_elements{{
    .name = "gather_elements",
    .doc = "x[i, j, …] with the coordinate of `axis` replaced by indices[i, j, …].",
    .operands = {{"x"}, {"indices", kIndices}},
    .attributes = {{"axis", 0}},
    .infer = infer_gather_elements,
    .eval = eval_gather_elements,
    .map =
        [](auto& m) {
          const int axis = m.axis("axis", m.rank(0));
          auto from = m.indices();
          from[static_cast<size_t>(axis)] =
              wrapped(m, m.element(1, m.indices()), m.extent(0, axis));
          m.read(0, from);
        },
}};

}  // namespace lathe
