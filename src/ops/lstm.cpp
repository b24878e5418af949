// SPDX-License-Identifier: MIT
// Gate order: i, o, f, c; peepholes: i, o, f.
#include "ops/support/recurrent.h"

namespace lathe {
namespace {

std::vector<Value*> step(RecurrentStep& s) {
  Value* c = s.state[1];
  Value* all = s.add(s.input, s.recur(s.state[0], 0, 4));
  const auto gate = [&](int64_t at, int64_t peephole, Value* seen) {
    Value* x = s.gate(all, at);
    return s.peepholes == nullptr ? x : s.add(x, s.mul(s.gate(s.peepholes, peephole), seen));
  };
  Value* i = s.activate(0, gate(0, 0, c));
  Value* f = s.e->boolean("input_forget") ? s.one_minus(i) : s.activate(0, gate(2, 2, c));
  c = s.add(s.mul(f, c), s.mul(i, s.activate(1, s.gate(all, 3))));
  Value* o = s.activate(0, gate(1, 1, c));
  return {s.mul(o, s.activate(2, c)), c};
}

}  // namespace

static const Register lstm{{
    .name = "lstm",
    .doc = "Long short-term memory: outputs of all steps, the last one, and the last cell state.",
    .operands = recurrent_operands(2),
    .attributes = recurrent_attributes({{"input_forget", Attribute(false)}}),
    .results = 3,
    .infer = [](Infer& c) { infer_recurrent(c, 4, 2); },
    .expand = [](Expansion& e) { expand_recurrent(e, {4, 2, {"Sigmoid", "Tanh", "Tanh"}, step}); },
}};

}  // namespace lathe
