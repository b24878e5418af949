// SPDX-License-Identifier: MIT
// Gate order: z (update), r (reset), h (hidden).
#include "ops/support/recurrent.h"

namespace lathe {
namespace {

std::vector<Value*> step(RecurrentStep& s) {
  Value* h = s.state[0];
  Value* zr = s.activate(0, s.add(s.gates(s.input, 0, 2), s.recur(h, 0, 2)));
  Value* z = s.gate(zr, 0);
  Value* r = s.gate(zr, 1);
  Value* recurrent =
      s.e->boolean("linear_before_reset") ? s.mul(r, s.recur(h, 2, 3)) : s.recur(s.mul(r, h), 2, 3);
  Value* candidate = s.activate(1, s.add(s.gate(s.input, 2), recurrent));
  return {s.add(s.mul(s.one_minus(z), candidate), s.mul(z, h))};
}

}  // namespace

static const Register gru{{
    .name = "gru",
    .doc = "Gated recurrent unit: outputs of all steps and the last one.",
    .operands = recurrent_operands(1),
    .attributes = recurrent_attributes({{"linear_before_reset", Attribute(false)}}),
    .results = 2,
    .infer = [](Infer& c) { infer_recurrent(c, 3, 1); },
    .expand = [](Expansion& e) { expand_recurrent(e, {3, 1, {"Sigmoid", "Tanh"}, step}); },
}};

}  // namespace lathe
