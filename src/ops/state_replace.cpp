// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/support/state.h"

namespace lathe {
namespace {

void infer_replace(Infer& c) {
  const State& state = state_of(c.instruction());
  c.check(state.kind != StateKind::append && state.kind != StateKind::window,
          "state '{}' is of kind {}, expected scatter, carry or cross", state.name,
          to_string(state.kind));
  c.check(c.element(1) == state.type.element && c.rank(1) == state.type.rank(), "state '{}' is {}",
          state.name, state.type.to_string());
  c.result(c.type(1));
}

}  // namespace

static const Register state_replace{{
    .name = "state_replace",
    .doc = "The state's next version: x, in the second of its two buffers.",
    .operands = {{"version"}, {"x"}},
    .attributes = {{"state", AttributeKind::text}},
    .updates = {{0, 0}},
    .structural = Structural::state_replace,
    .infer = infer_replace,
}};

}  // namespace lathe
