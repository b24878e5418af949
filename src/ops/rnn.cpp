// SPDX-License-Identifier: MIT
#include "ops/support/recurrent.h"

namespace lathe {
namespace {

std::vector<Value*> step(RecurrentStep& s) {
  return {s.activate(0, s.add(s.input, s.recur(s.state[0], 0, 1)))};
}

}  // namespace

static const Register rnn{{
    .name = "rnn",
    .doc = "Simple recurrent layer: outputs of all steps and the last one.",
    .operands = recurrent_operands(1),
    .attributes = recurrent_attributes(),
    .results = 2,
    .infer = [](Infer& c) { infer_recurrent(c, 1, 1); },
    .expand = [](Expansion& e) { expand_recurrent(e, {1, 1, {"Tanh"}, step}); },
}};

}  // namespace lathe
