// SPDX-License-Identifier: MIT
// causal_conv_with_state over packed tokens: x [1, channels, tokens], or [1, tokens, d…] with
// channels_last. With rows_first x is [1, tokens, channels], while the state stays [1, channels,
// …].
#include <utility>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/sequence_step.h"
#include "ops/support/causal_conv.h"
#include "ops/support/views.h"

namespace lathe {

void prepare_sequence_conv(Evaluation& c, std::vector<CausalConv>& items) {
  items.clear();
  const bool rows_first = c.boolean("rows_first");
  const int axis = rows_first || c.boolean("channels_last") ? 1 : 2;
  const auto transposed = [&](TensorView view) {
    if (rows_first) {
      std::swap(view.dims[1], view.dims[2]);
      std::swap(view.strides[1], view.strides[2]);
    }
    return view;
  };
  SequenceStep& step = step_of(c, c.in(0).dims[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < step.items().size(); ++i) {
    const StepItem& item = step.items()[i];
    if (item.count == 0) continue;
    CausalConv& conv = items.emplace_back();
    conv.x = transposed(narrow(c.in(0), axis, item.begin, item.count));
    conv.w = c.in(1);
    if (c.has(2)) conv.bias = c.in(2);
    const TensorView past = step.current(c.text("state"), i);
    if (past.data != nullptr) conv.past = past;
    conv.y = transposed(narrow(c.out(), axis, item.begin, item.count));
    conv.present = step.next(c.text("state"), i);
    conv.dilation = c.integer("dilation");
    conv.channels_last = c.boolean("channels_last");
    conv.silu = c.text("activation") != "none";
    conv.window = c.integer("state_window");
  }
}

static const Register sequence_conv{{
    .name = "sequence_conv",
    .doc = "Causal depthwise convolution of packed tokens with a state per sequence.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"w", kFloats, Arity::one, 'T'},
                 {"bias", kFloats, Arity::optional, 'T'}},
    .attributes = {{"activation", "none"},
                   {"channels_last", Attribute(false)},
                   {"rows_first", Attribute(false)},
                   {"dilation", 1},
                   {"state_window", 0},
                   {"state", AttributeKind::text}},
    .traits = kImpure,
    .infer =
        [](Infer& c) {
          c.check(!c.boolean("rows_first") || (!c.boolean("channels_last") && c.rank(0) == 3),
                  "rows_first requires rank 3 and no channels_last, got rank {}", c.rank(0));
          c.result(c.element(0), c.dims(0));
        },
    .eval =
        [](Evaluation& c) {
          thread_local std::vector<CausalConv> items;
          prepare_sequence_conv(c, items);
          for (const CausalConv& item : items) item.run(c.pool);
        },
}};

}  // namespace lathe
