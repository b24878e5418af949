// SPDX-License-Identifier: MIT
// With a length per sequence (axis 0), new elements of sequence b are at [length[b], length[b] + n)
// of the growing axis. Elements between the end of a sequence and that of the longest are zero.
#include "ir/infer.h"
#include "ops/support/state.h"

namespace lathe {
namespace {

void infer_append(Infer& c) {
  const State& state = state_of(c.instruction());
  c.check(state.kind == StateKind::append || state.kind == StateKind::window,
          "state '{}' is of kind {}, expected append or window", state.name, to_string(state.kind));
  c.check(c.element(0) == state.type.element && c.rank(0) == state.type.rank() &&
              c.element(1) == state.type.element && c.rank(1) == state.type.rank(),
          "state '{}' is {}", state.name, state.type.to_string());
  std::vector<Dim> dims = c.dims(0);
  for (int axis = 0; axis < c.rank(0); ++axis) {
    if (axis == state.axis) continue;
    c.require_equal(c.dim(0, axis), c.dim(1, axis), "size of an axis that does not grow");
  }
  Dim& length = dims[static_cast<size_t>(state.axis)];
  length = length + c.dim(1, state.axis);
  c.result(c.element(0), std::move(dims));
}

}  // namespace

static const Register state_append{{
    .name = "state_append",
    .doc = "The state's next version: x appended along the growing axis.",
    .operands = {{"version"}, {"x"}},
    .attributes = {{"state", AttributeKind::text}},
    .updates = {{0, 0}},
    .structural = Structural::state_append,
    .infer = infer_append,
}};

}  // namespace lathe
