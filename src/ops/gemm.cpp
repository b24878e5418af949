// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/support/matmul.h"
#include "ops/token_step.h"

namespace lathe {

static const Register gemm{{
    .name = "gemm",
    .doc = "alpha · op(a) · op(b) + beta · c; op may transpose; compute_type as in matmul.",
    .operands = {{"a", kMatmulTypes, Arity::one, 'T'},
                 {"b", kMatmulTypes, Arity::one, 'T'},
                 {"c", kMatmulTypes, Arity::optional, 'T'}},
    .attributes = {{"alpha", Attribute(1.0)},
                   {"beta", Attribute(1.0)},
                   {"trans_a", Attribute(false)},
                   {"trans_b", Attribute(false)},
                   {"compute_type", ""}},
    .infer =
        [](Infer& c) {
          check_compute_type(c);
          c.check(c.rank(0) == 2 && c.rank(1) == 2, "ranks {}, {}, not 2", c.rank(0), c.rank(1));
          const int ta = c.boolean("trans_a") ? 1 : 0, tb = c.boolean("trans_b") ? 1 : 0;
          c.require_equal(c.dim(0, 1 - ta), c.dim(1, tb), "columns of a and rows of b");
          c.result(c.element(0), {c.dim(0, ta), c.dim(1, 1 - tb)});
          if (c.has(2)) c.broadcast({c.dim(0, ta), c.dim(1, 1 - tb)}, c.dims(2));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto scaled = [&](Value* x, double factor) {
            return factor == 1 ? x : b(ops::mul, {x, b.scalar(e.element(0), factor)});
          };
          const auto transposed = [&](int i, std::string_view trans) {
            return e.boolean(trans) ? b.transpose(e.operand(i), {1, 0}) : e.operand(i);
          };
          Value* y = b(ops::matmul, {transposed(0, "trans_a"), transposed(1, "trans_b")},
                       {{"compute_type", e.text("compute_type")}});
          y = scaled(y, e.number("alpha"));
          conclude(e, e.has(2) ? b(ops::add, {y, scaled(e.operand(2), e.number("beta"))}) : y);
        },
    .tokens = matmul_tokens,
}};

}  // namespace lathe
