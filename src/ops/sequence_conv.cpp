// SPDX-License-Identifier: MIT
// causal_conv_with_state over packed tokens: x [1, channels, tokens], or [1, tokens, d…] with
// channels_last. With rows_first x is [1, tokens, channels], while the states stay [slots, 1,
// channels, …]; their next version is result 1. Step tables: support/step_tables.h.
#include <utility>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/causal_conv.h"
#include "ops/support/step_tables.h"
#include "ops/support/views.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

enum Operand { kState = 3, kBounds, kSlots };

}  // namespace

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
  thread_local std::vector<StepItem> step;  // reused by later launches
  read_items(origin, c.in(kBounds), {}, c.in(0).dims[static_cast<size_t>(axis)], step);
  continue_version(c.in(kState), c.out(1));
  const SlottedState states(c.out(1), c.in(kSlots));
  for (size_t i = 0; i < step.size(); ++i) {
    const StepItem& item = step[i];
    if (item.count == 0) continue;
    states.check(origin, i);
    CausalConv& conv = items.emplace_back();
    conv.x = transposed(narrow(c.in(0), axis, item.begin, item.count));
    conv.w = c.in(1);
    if (c.has(2)) conv.bias = c.in(2);
    const TensorView past = states.current(i);
    if (past.data != nullptr) conv.past = past;
    conv.y = transposed(narrow(c.out(), axis, item.begin, item.count));
    conv.present = states.next(i);
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
                 {"bias", kFloats, Arity::optional, 'T'},
                 {"state", kFloats},
                 {"token_bounds", types(ElementType::i32)},
                 {"state_slots", types(ElementType::i32)}},
    .attributes = {{"activation", "none"},
                   {"channels_last", Attribute(false)},
                   {"rows_first", Attribute(false)},
                   {"dilation", 1},
                   {"state_window", 0}},
    .updates = {{kState, 1}},
    .results = 2,
    .infer =
        [](Infer& c) {
          c.check(!c.boolean("rows_first") || (!c.boolean("channels_last") && c.rank(0) == 3),
                  "rows_first requires rank 3 and no channels_last, got rank {}", c.rank(0));
          check_step_tables(c, kBounds, -1, kSlots, 2);
          c.result(c.element(0), c.dims(0));
          c.result(c.type(kState));
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
