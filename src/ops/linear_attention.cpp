// SPDX-License-Identifier: MIT
// A state S [key size, value size] per sequence and key head, updated token by token:
//
//   S ← exp(g) · S;  S ← S + k ⊗ (v, or β · (v - Sᵀk));  o = scale · Sᵀq
//
// Rules without g or β use g = 0, β = 1. If there are more key heads than query heads, a query head
// reads several states; otherwise several query heads read one state. With state_window there are
// several states (linear_attention.h).
#include "ops/support/linear_attention.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

enum Operand { kQuery, kKey, kValue, kPast, kDecay, kBeta };

void check_rule(const Infer& c) {
  const std::string& name = c.text("update_rule");
  c.check(name == "linear" || name == "gated" || name == "delta" || name == "gated_delta",
          "update_rule is '{}', expected linear, gated, delta or gated_delta", escape(name));
  c.check(
      (!name.starts_with("gated") || c.has(kDecay)) && (!name.ends_with("delta") || c.has(kBeta)),
      "update_rule {} requires decay (present: {}) or beta (present: {})", escape(name),
      c.has(kDecay), c.has(kBeta));
}

void infer_linear_attention(Infer& c) {
  check_rule(c);
  const int64_t heads = c.integer("q_num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0 && (heads % kv_heads == 0 || kv_heads % heads == 0),
          "q_num_heads {} and kv_num_heads {}: one must be a multiple of the other", heads,
          kv_heads);
  for (const int operand : {kQuery, kKey, kValue, kDecay, kBeta}) {
    c.check(!c.has(operand) || c.rank(operand) == 3, "operand {} has rank {}, expected 3", operand,
            c.has(operand) ? c.rank(operand) : 0);
    for (int axis = 0; axis < 2 && c.has(operand); ++axis) {
      c.require_equal(c.dim(operand, axis), c.dim(kQuery, axis),
                      "batch and length of the operands");
    }
  }
  c.require_equal(Dim::mod(c.dim(kQuery, 2), heads), 0, "columns of query as a multiple of heads");
  c.require_equal(Dim::mod(c.dim(kValue, 2), kv_heads), 0,
                  "columns of value as a multiple of heads");
  const Dim keys = Dim::floor_div(c.dim(kQuery, 2), heads);
  const Dim values = Dim::floor_div(c.dim(kValue, 2), kv_heads);
  require_multiple(c, c.dim(kKey, 2), keys, "columns of key as a multiple of their size");
  std::vector<Dim> state = {c.dim(kQuery, 0), kv_heads, keys, values};
  const int64_t window = c.integer("state_window");
  c.check(window >= 0 && window <= 8, "state_window is {}, expected 0 to 8", window);
  if (window > 0) state.insert(state.begin(), window);
  if (c.has(kPast)) {
    const int rank = static_cast<int>(state.size());
    c.check(c.rank(kPast) == rank, "past_state has rank {}, expected {}", c.rank(kPast), rank);
    for (int axis = 0; axis < rank; ++axis) {
      c.require_equal(c.dim(kPast, axis), state[static_cast<size_t>(axis)], "shape of past_state");
    }
  }
  c.result(c.element(kQuery),
           {c.dim(kQuery, 0), c.dim(kQuery, 1), values * std::max(heads, kv_heads)});
  c.result(c.has(kPast) ? c.element(kPast) : c.element(kQuery), state);
}

}  // namespace

LinearRecurrence prepare_linear_attention(const LinearAttentionAttributes& a,
                                          const OperandViews& c) {
  LinearRecurrence r;
  r.rule = a.rule;
  r.heads = a.heads;
  r.kv_heads = a.kv_heads;
  r.scale = a.scale;
  r.query = c.in(kQuery);
  r.key = c.in(kKey);
  r.value = c.in(kValue);
  if (c.has(kPast)) r.past = c.in(kPast);
  if (r.rule.gated) r.decay = c.in(kDecay);
  if (r.rule.delta) r.beta = c.in(kBeta);
  r.y = c.out(0);
  r.present = c.out(1);
  r.window = a.window;
  return r;
}

static const Register linear_attention{{
    .name = "linear_attention",
    .doc = "Linear attention: a state matrix per head, updated by each token in order.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 {"key", kFloats, Arity::one, 'T'},
                 {"value", kFloats, Arity::one, 'T'},
                 {"past_state", kFloats, Arity::optional},
                 {"decay", kFloats, Arity::optional},
                 {"beta", kFloats, Arity::optional}},
    .attributes = {{"q_num_heads", AttributeKind::integer},
                   {"kv_num_heads", AttributeKind::integer},
                   {"scale", Attribute(0.0)},
                   {"update_rule", "gated_delta"},
                   {"state_window", 0}},
    .results = 2,
    .infer = infer_linear_attention,
    .eval =
        [](Evaluation& c) {
          prepare_linear_attention(LinearAttentionAttributes(c), c).run(c.pool);
        },
}};

}  // namespace lathe
