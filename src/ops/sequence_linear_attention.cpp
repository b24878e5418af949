// SPDX-License-Identifier: MIT
// linear_attention over packed tokens [1, tokens, …], with states [slots, 1, …], whose next version
// is result 1. Step tables: support/step_tables.h.
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/linear_attention.h"
#include "ops/support/step_tables.h"
#include "ops/support/views.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

enum Operand { kQuery, kKey, kValue, kDecay, kBeta, kState, kBounds, kSlots };

void infer_sequence_linear_attention(Infer& c) {
  const int64_t heads = c.integer("q_num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0,
          "q_num_heads is {} and kv_num_heads is {}, expected at least 1", heads, kv_heads);
  c.check(c.rank(kQuery) == 3 && c.rank(kKey) == 3 && c.rank(kValue) == 3,
          "query, key and value have ranks {}, {} and {}, expected 3", c.rank(kQuery), c.rank(kKey),
          c.rank(kValue));
  check_step_tables(c, kBounds, -1, kSlots, 2);
  const Dim values = Dim::floor_div(c.dim(kValue, 2), kv_heads);
  c.result(c.element(kQuery),
           {c.dim(kQuery, 0), c.dim(kQuery, 1), values * std::max(heads, kv_heads)});
  c.result(c.type(kState));
}

}  // namespace

void prepare_sequence_linear_attention(const LinearAttentionAttributes& a, const OpOrigin& origin,
                                       const OperandViews& c,
                                       std::vector<LinearRecurrence>& items) {
  items.clear();
  thread_local std::vector<StepItem> step;  // reused by later launches
  read_items(origin, c.in(kBounds), {}, c.in(kQuery).dims[1], step);
  continue_version(c.in(kState), c.out(1));
  const SlottedState states(c.out(1), c.in(kSlots));
  for (size_t i = 0; i < step.size(); ++i) {
    const StepItem& item = step[i];
    if (item.count == 0) continue;
    states.check(origin, i);
    const auto own = [&](const TensorView& all) { return narrow(all, 1, item.begin, item.count); };
    LinearRecurrence& r = items.emplace_back();
    r.rule = a.rule;
    r.heads = a.heads;
    r.kv_heads = a.kv_heads;
    r.scale = a.scale;
    r.query = own(c.in(kQuery));
    r.key = own(c.in(kKey));
    r.value = own(c.in(kValue));
    const TensorView past = states.current(i);
    if (past.data != nullptr) r.past = past;
    if (r.rule.gated) r.decay = own(c.in(kDecay));
    if (r.rule.delta) r.beta = own(c.in(kBeta));
    r.y = own(c.out());
    r.present = states.next(i);
    r.window = a.window;
  }
}

namespace {

void evaluate_sequence_linear_attention(Evaluation& c) {
  thread_local std::vector<LinearRecurrence> items;
  prepare_sequence_linear_attention(LinearAttentionAttributes(c), c, c, items);
  for (const LinearRecurrence& item : items) item.run(c.pool);
}

}  // namespace

static const Register sequence_linear_attention{{
    .name = "sequence_linear_attention",
    .doc = "Linear attention of packed tokens with a state per sequence.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 {"key", kFloats, Arity::one, 'T'},
                 {"value", kFloats, Arity::one, 'T'},
                 {"decay", kFloats, Arity::optional},
                 {"beta", kFloats, Arity::optional},
                 {"state", kFloats},
                 {"token_bounds", types(ElementType::i32)},
                 {"state_slots", types(ElementType::i32)}},
    .attributes = {{"q_num_heads", AttributeKind::integer},
                   {"kv_num_heads", AttributeKind::integer},
                   {"scale", Attribute(0.0)},
                   {"update_rule", "gated_delta"},
                   {"state_window", 0}},
    .updates = {{kState, 1}},
    .results = 2,
    .infer = infer_sequence_linear_attention,
    .eval = evaluate_sequence_linear_attention,
    .tokens = [](const TokenStep& s) { return sequence_tokens(s, 1); },
}};

}  // namespace lathe
