// SPDX-License-Identifier: MIT
#include "ops/composite.h"

namespace lathe {

static const Register skip_layer_normalization{{
    .name = "skip_layer_normalization",
    .doc = "Layer normalisation of s = x + skip (+ bias), times gamma, plus beta; with its mean, "
           "factor, and s.",
    .operands = {{"x", kFloats},
                 {"skip", kFloats},
                 {"gamma", kFloats},
                 {"beta", kFloats, Arity::optional},
                 {"bias", kFloats, Arity::optional}},
    .attributes = {{"epsilon", Attribute(1e-12)}},
    .results = 4,
    .infer =
        [](Infer& c) {
          for (int i = 1; i < c.count(); ++i) {
            if (c.has(i)) c.broadcast(c.dims(0), c.dims(i));
          }
          c.result(c.element(0), c.dims(0));
          c.result(composite_type(c.element(0)), reduced_from(c, 0, c.rank(0) - 1));
          c.result(composite_type(c.element(0)), reduced_from(c, 0, c.rank(0) - 1));
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          Value* sum = b("add", {widen(b, e.operand(0)), widen(b, e.operand(1))});
          if (e.has(4)) sum = b("add", {sum, widen(b, e.operand(4))});
          const std::vector<int64_t> axes = {e.rank(0) - 1};
          const Normalized n = normalize(b, sum, axes, e.number("epsilon"));
          Value* y = b("mul", {n.value, widen(b, e.operand(2))});
          if (e.has(3)) y = b("add", {y, widen(b, e.operand(3))});
          conclude(e, y);
          conclude(e, n.mean);
          conclude(e, n.inverse);
          conclude(e, sum);
        },
}};

}  // namespace lathe
