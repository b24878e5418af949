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
#include "ops/token_step.h"

namespace lathe {

void prepare_sequence_conv(const CausalConvAttributes& a, const OpOrigin& origin,
                           const OperandViews& c, std::vector<CausalConv>& items) {
  items.clear();
  const int axis = a.rows_first || a.channels_last ? 1 : 2;
  const auto transposed = [&](TensorView view) {
    if (a.rows_first) {
      std::swap(view.dims[1], view.dims[2]);
      std::swap(view.strides[1], view.strides[2]);
    }
    return view;
  };
  SequenceStep& step = step_of(origin, c, c.in(0).dims[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < step.items().size(); ++i) {
    const StepItem& item = step.items()[i];
    if (item.count == 0) continue;
    CausalConv& conv = items.emplace_back();
    conv.x = transposed(narrow(c.in(0), axis, item.begin, item.count));
    conv.w = c.in(1);
    if (c.has(2)) conv.bias = c.in(2);
    const TensorView past = step.current(a.state, i);
    if (past.data != nullptr) conv.past = past;
    conv.y = transposed(narrow(c.out(), axis, item.begin, item.count));
    conv.present = step.next(a.state, i);
    conv.dilation = a.dilation;
    conv.channels_last = a.channels_last;
    conv.silu = a.silu;
    conv.window = a.window;
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
          prepare_sequence_conv(CausalConvAttributes(c), c, c, items);
          for (const CausalConv& item : items) item.run(c.pool);
        },
    .tokens =
        [](const TokenStep& s) {
          const bool rows = s.boolean("channels_last") || s.boolean("rows_first");
          return sequence_tokens(s, rows ? 1 : 2);
        },
}};

}  // namespace lathe
