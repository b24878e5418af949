// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/evaluation.h"
#include "ops/index_map.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

void infer_concat(Infer& c) {
  c.check(c.count() > 0, "got {} operands, expected at least one", c.count());
  const int axis = c.axis("axis", c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  for (int i = 1; i < c.count(); ++i) {
    c.check(c.rank(i) == c.rank(0), "operand {} has rank {}, operand 0 has {}", i, c.rank(i),
            c.rank(0));
    for (int other = 0; other < c.rank(0); ++other) {
      Dim& dim = dims[static_cast<size_t>(other)];
      if (other == axis) {
        dim = dim + c.dim(i, other);
        continue;
      }
      c.require_equal(dim, c.dim(i, other), fmt::format("axis {} of operand {}", other, i));
      if (c.dim(i, other).is_constant()) dim = c.dim(i, other);
    }
  }
  c.result(c.element(0), std::move(dims));
  std::vector<int> all(static_cast<size_t>(c.count()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  propagate_elements(c, all);
}

void eval_concat(Evaluation& c) {
  const int axis = c.axis("axis", c.in(0).rank);
  TensorView all = c.in(0);
  for (int i = 1; i < c.count(); ++i) all.dims[axis] += c.in(i).dims[axis];
  const UnpackedResult out(c.out(0, all.extents()));
  int64_t begin = 0;
  for (int i = 0; i < c.count(); ++i) {
    const UnpackedOperand part(c.in(i));
    const int64_t extent = part.view().dims[axis];
    const TensorView place = narrow(out.view(), axis, begin, extent);
    begin += extent;
    if (!std::ranges::equal(place.extents(), part.view().extents())) {
      c.fail("operand {} is {}, which cannot be concatenated with {}", i,
             to_string(c.in(i).type, c.in(i).extents()),
             to_string(c.in(0).type, c.in(0).extents()));
    }
    // The caller may pass one buffer as past and present: the past is then already in place.
    if (!same_memory(part.view(), place)) copy_elements(part.view(), place, c.pool);
  }
  out.store();
}

template <class M>
void map_concat(M& m) {
  const int axis = m.axis("axis", m.rank(0));
  typename M::Index begin = 0;
  for (int part = 0; part < m.count(); ++part) {
    auto from = m.indices();
    from[static_cast<size_t>(axis)] = m.index(axis) - begin;
    begin = begin + m.extent(part, axis);
    // Parts before this one have lower indices; the last part has the rest.
    if (part + 1 < m.count()) {
      m.read(part, from, {begin - 1 - m.index(axis)});
    } else {
      m.read(part, from);
    }
  }
}

}  // namespace

static const Register concat{{
    .name = "concat",
    .doc = "Concatenates the operands along an axis.",
    .operands = {{.name = "parts", .arity = Arity::variadic, .group = 'T'}},
    .attributes = {{"axis", AttributeKind::integer}},
    .infer = infer_concat,
    .eval = eval_concat,
    .map = [](auto& m) { map_concat(m); },
}};

}  // namespace lathe
