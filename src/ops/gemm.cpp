// SPDX-License-Identifier: MIT
#include "ops/composite.h"
#include "ops/matmul.h"

namespace lathe {

static const Register gemm{{
    .name = "gemm",
    .doc = "alpha · op(a) · op(b) + beta · c on matrices; trans_a and trans_b transpose.",
    .operands = {{"a", kMatmulTypes, Arity::one, 'T'},
                 {"b", kMatmulTypes, Arity::one, 'T'},
                 {"c", kMatmulTypes, Arity::optional, 'T'}},
    .attributes = {{"alpha", Attribute(1.0)},
                   {"beta", Attribute(1.0)},
                   {"trans_a", Attribute(false)},
                   {"trans_b", Attribute(false)}},
    .infer =
        [](Infer& c) {
          c.check(c.rank(0) == 2 && c.rank(1) == 2, "ranks {} and {}", c.rank(0), c.rank(1));
          const int ta = c.boolean("trans_a") ? 1 : 0;
          const int tb = c.boolean("trans_b") ? 1 : 0;
          c.require_equal(c.dim(0, 1 - ta), c.dim(1, tb), "columns of a and rows of b");
          c.result(c.element(0), {c.dim(0, ta), c.dim(1, 1 - tb)});
          if (c.has(2)) c.broadcast({c.dim(0, ta), c.dim(1, 1 - tb)}, c.dims(2));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto scaled = [&](Value* x, double factor) {
            return factor == 1 ? x : b("mul", {x, b.scalar(e.element(0), factor)});
          };
          Value* left = e.operand(0);
          Value* right = e.operand(1);
          if (e.boolean("trans_a")) left = b.transpose(left, {1, 0});
          if (e.boolean("trans_b")) right = b.transpose(right, {1, 0});
          Value* y = scaled(b("matmul", {left, right}), e.number("alpha"));
          conclude(e, e.has(2) ? b("add", {y, scaled(e.operand(2), e.number("beta"))}) : y);
        },
}};

}  // namespace lathe
