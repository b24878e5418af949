// SPDX-License-Identifier: MIT
#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/token_step.h"

namespace lathe {

static const Register clip_op{{
    .name = "clip",
    .doc = "min(max(x, low), high).",
    .operands = {{"x", kNumeric, Arity::one, 'T'},
                 {"low", kNumeric, Arity::optional, 'T'},
                 {"high", kNumeric, Arity::optional, 'T'}},
    .infer =
        [](Infer& c) {
          for (int i = 1; i < c.count(); ++i) {
            if (!c.has(i)) continue;
            c.check(c.rank(i) <= c.rank(0), "x has rank {}, its limit has rank {}", c.rank(0),
                    c.rank(i));
            for (const Dim& dim : c.dims(i)) c.require_equal(dim, 1, "size of a limit");
          }
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Value* y = e.operand(0);
          if (e.has(1)) y = e.b(ops::max, {y, e.operand(1)});
          if (e.has(2)) y = e.b(ops::min, {y, e.operand(2)});
          e.result(y);
        },
    .tokens = elementwise_tokens,
}};

}  // namespace lathe
