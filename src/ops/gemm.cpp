// SPDX-License-Identifier: MIT
#include "ops/composite.h"
#include "ops/matmul.h"

namespace lathe {

static const Register gemm{{
    .name = "gemm",
    .doc = "alpha · op(a) · op(b) + beta · c on matrices; trans_a and trans_b transpose.",
    .operands = {{.name = "a", .types = kMatmulTypes, .group = 1},
                 {.name = "b", .types = kMatmulTypes, .group = 1},
                 {.name = "c", .types = kMatmulTypes, .arity = Arity::optional, .group = 1}},
    .attributes = {{"alpha", Attribute(1.0)},
                   {"beta", Attribute(1.0)},
                   {"trans_a", Attribute(false)},
                   {"trans_b", Attribute(false)}},
    .infer =
        [](Infer& c) {
          c.check(c.rank(0) == 2 && c.rank(1) == 2, "ranks {} and {}, expected matrices", c.rank(0),
                  c.rank(1));
          const bool ta = c.boolean("trans_a");
          const bool tb = c.boolean("trans_b");
          c.require_equal(c.dim(0, ta ? 0 : 1), c.dim(1, tb ? 1 : 0), "columns of a and rows of b");
          const std::vector<Dim> dims = {c.dim(0, ta ? 1 : 0), c.dim(1, tb ? 0 : 1)};
          if (c.has(2)) c.broadcast(dims, c.dims(2));
          c.result(c.element(0), dims);
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto side = [&](int i, std::string_view transposed) {
            return e.boolean(transposed) ? b.transpose(e.operand(i), {1, 0}) : e.operand(i);
          };
          const auto scaled = [&](Value* x, double factor) {
            return factor == 1 ? x : b("mul", {x, b.scalar(e.element(0), factor)});
          };
          Value* y = b("matmul", {side(0, "trans_a"), side(1, "trans_b")});
          y = scaled(y, e.number("alpha"));
          if (e.has(2)) y = b("add", {y, scaled(e.operand(2), e.number("beta"))});
          conclude(e, y);
        },
}};

}  // namespace lathe
