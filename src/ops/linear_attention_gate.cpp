// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register linear_attention_gate{{
    .name = "linear_attention_gate",
    .doc = "decay = decay_scale * softplus(a + dt_bias) and beta = sigmoid(b), computed in f32.",
    .operands = {{"a", kFloats},
                 {"dt_bias", kFloats},
                 {"decay_scale", kFloats},
                 {"b", kFloats, Arity::optional}},
    .results = 2,
    .infer =
        [](Infer& c) {
          require_broadcast(c, {1, 2});
          c.result(c.element(0), c.dims(0));
          c.result(c.element(0), c.has(3) ? c.dims(3) : std::vector<Dim>{0});
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          Value* a = b(ops::add, {widen(b, e.operand(0)), widen(b, e.operand(1))});
          conclude(e, b(ops::mul, {widen(b, e.operand(2)), b(ops::softplus, {a})}));
          conclude(e, e.has(3) ? b(ops::sigmoid, {widen(b, e.operand(3))})
                               : b.cast(b.integers({}), ElementType::f32));
        },
    .tokens = tokens_before_last_axis,
}};

}  // namespace lathe
