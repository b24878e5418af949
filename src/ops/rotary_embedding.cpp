// SPDX-License-Identifier: MIT
// x is [b, heads, s, size] or [b, s, heads · size]. With positions, cos and sin are tables [n,
// half]; without, [b, s, half]. Positions are [b, s], or [1]: the position of each sequence's first
// token.
#include "ir/infer.h"
#include "ops/op_call.h"
#include "ops/support/rope.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

void infer_rotary(Infer& c) {
  const int rank = c.rank(0);
  const int64_t heads = c.integer("num_heads");
  c.check(rank == 4 || (rank == 3 && heads > 0),
          "x has rank {} and num_heads is {}: expected rank 4, or rank 3 and num_heads", rank,
          heads);
  const int tables = c.has(3) ? 2 : 3;
  c.check(c.rank(1) == tables && c.rank(2) == tables,
          "cos and sin have ranks {} and {}, expected {}", c.rank(1), c.rank(2), tables);
  const int64_t rotated = c.integer("rotary_embedding_dim");
  if (rotated > 0) c.require_equal(c.dim(1, tables - 1), rotated / 2, "columns of the tables");
  if (rank == 3)
    c.require_equal(Dim::mod(c.dim(0, 2), heads), 0, "columns of x as a multiple of heads");
  c.result(c.element(0), c.dims(0));
}

}  // namespace

static const Register rotary_embedding{{
    .name = "rotary_embedding",
    .doc = "RoPE: rotates pairs of a head's elements by angles that depend on the position.",
    .operands = {{"x", kFloats},
                 {"cos", kFloats},
                 {"sin", kFloats},
                 {"positions", kIndices, Arity::optional}},
    .attributes = {{"interleaved", Attribute(false)},
                   {"num_heads", 0},
                   {"rotary_embedding_dim", 0}},
    .infer = infer_rotary,
    .eval =
        [](Evaluation& c) {
          rotate_heads(c, c.integer("num_heads"), c.boolean("interleaved"), nullptr);
        },
    .tokens = rotary_tokens,
}};

}  // namespace lathe
