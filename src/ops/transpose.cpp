// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/evaluation.h"
#include "ops/index_map.h"
#include "ops/support/convert_operands.h"
#include "ops/support/small_vector.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

// The permutation; default: reversed axes.
template <class Axes>
Axes permutation_of(const Integers& given, int rank) {
  Axes axes;
  for (int axis = 0; axis < rank && given.empty(); ++axis) axes.push_back(rank - 1 - axis);
  for (const int64_t axis : given) axes.push_back(axis);
  return axes;
}

void infer_transpose(Infer& c) {
  const auto permutation = permutation_of<Integers>(c.integers("permutation"), c.rank(0));
  Integers sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (size_t axis = 0; axis < sorted.size(); ++axis) {
    c.check(
        sorted[axis] == static_cast<int64_t>(axis) && static_cast<int>(sorted.size()) == c.rank(0),
        "[{}] is not a permutation of {} axes", fmt::join(permutation, ", "), c.rank(0));
  }
  std::vector<Dim> dims;
  for (const int64_t axis : permutation) dims.push_back(c.dim(0, static_cast<int>(axis)));
  c.result(c.element(0), std::move(dims));
  propagate_elements(c, {0});
}

}  // namespace

static const Register transpose{{
    .name = "transpose",
    .doc = "Axis i of the result is axis permutation[i] of x; default: reversed axes.",
    .operands = {{"x"}},
    .attributes = {{"permutation", Integers{}}},
    .infer = infer_transpose,
    .eval =
        [](Evaluation& c) {
          const UnpackedOperand x(c.in(0));
          const auto permutation =
              permutation_of<SmallVector<int64_t>>(c.integers("permutation"), x.view().rank);
          const TensorView moved = permuted(x.view(), permutation);
          const UnpackedResult out(c.out(0, moved.extents()));
          copy_elements(moved, out.view(), c.pool);
          out.store();
        },
    .map =
        [](auto& m) {
          const auto order =
              permutation_of<SmallVector<int64_t>>(m.integers("permutation"), m.rank(0));
          auto from = m.coordinates(0);
          for (int axis = 0; axis < m.rank(0); ++axis)
            from[static_cast<size_t>(order[static_cast<size_t>(axis)])] = m.index(axis);
          m.read(0, from);
        },
    .view = affine_view,
}};

}  // namespace lathe
