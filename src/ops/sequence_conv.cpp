// SPDX-License-Identifier: MIT
// causal_conv_with_state over packed rows: x [1, channels, rows], or [1, rows, d…] with
// channels_last.
#include "ir/infer.h"
#include "ops/causal_conv.h"
#include "ops/evaluation.h"
#include "ops/sequence_step.h"
#include "ops/views.h"

namespace lathe {
namespace {

void evaluate_sequence_conv(Evaluation& c) {
  const int axis = c.boolean("channels_last") ? 1 : 2;
  SequenceStep& step = step_of(c, c.in(0).dims[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < step.items().size(); ++i) {
    const StepItem& item = step.items()[i];
    if (item.count == 0) continue;
    CausalConv conv;
    conv.x = narrow(c.in(0), axis, item.begin, item.count);
    conv.w = c.in(1);
    if (c.has(2)) conv.bias = c.in(2);
    const TensorView past = step.current(c.text("state"), i);
    if (past.data != nullptr) conv.past = past;
    conv.y = narrow(c.out(), axis, item.begin, item.count);
    conv.present = step.next(c.text("state"), i);
    conv.dilation = c.integer("dilation");
    conv.channels_last = c.boolean("channels_last");
    conv.silu = c.text("activation") != "none";
    conv.run(c.pool);
  }
}

}  // namespace

static const Register sequence_conv{{
    .name = "sequence_conv",
    .doc = "A depthwise convolution of packed rows over what came before in their sequences.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"w", kFloats, Arity::one, 'T'},
                 {"bias", kFloats, Arity::optional, 'T'}},
    .attributes = {{"activation", "none"},
                   {"channels_last", Attribute(false)},
                   {"dilation", 1},
                   {"state", AttributeKind::text}},
    .traits = kImpure,
    .infer = [](Infer& c) { c.result(c.element(0), c.dims(0)); },
    .eval = evaluate_sequence_conv,
}};

}  // namespace lathe
