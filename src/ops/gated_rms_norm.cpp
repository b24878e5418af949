// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/support/requirements.h"
#include "ops/token_step.h"

namespace lathe {

static const Register gated_rms_norm{{
    .name = "gated_rms_norm",
    .doc = "RMS normalisation of groups of the scale's size, times scale and activation(gate).",
    .operands = {{"x", kFloats}, {"scale", kFloats}, {"gate", kFloats}},
    .attributes = {{"activation", "silu"}, {"epsilon", 1e-5}},
    .infer =
        [](Infer& c) {
          const std::string& f = c.text("activation");
          c.check(f == "silu" || f == "swish" || f == "sigmoid",
                  "activation is '{}', expected silu, swish or sigmoid", escape(f));
          c.check(c.rank(0) > 0 && c.rank(1) == 1,
                  "x has rank {} and scale has rank {}, expected 1 for scale", c.rank(0),
                  c.rank(1));
          require_multiple(c, c.dims(0).back(), c.dim(1, 0),
                           "columns of x as a multiple of the elements of scale");
          require_broadcast(c, {2});
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const Dim size = e.operand(1)->type().dims->front();
          std::vector<Dim> groups = *e.operand(0)->type().dims;
          groups.back() = Dim::floor_div(groups.back(), size);
          groups.push_back(size);
          Value* x = b.reshape(widen(b, e.operand(0)), groups);
          Value* y = normalize_rms(b, x, {e.rank(0)}, e.number("epsilon")).value;
          y = b.reshape(b(ops::mul, {y, widen(b, e.operand(1))}), *e.operand(0)->type().dims);
          const Op& gate = e.text("activation") == "sigmoid" ? ops::sigmoid : ops::swish;
          conclude(e, b(ops::mul, {y, b(gate, {widen(b, e.operand(2))})}));
        },
    .tokens = tokens_before_last_axis,
}};

}  // namespace lathe
