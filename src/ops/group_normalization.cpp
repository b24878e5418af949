// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register group_normalization{{
    .name = "group_normalization",
    .doc = "Normalisation over groups of channels; scale and bias are per channel.",
    .operands = {{"x", kFloats}, {"scale", kFloats}, {"bias", kFloats}},
    .attributes = {{"num_groups", AttributeKind::integer},
                   {"epsilon", Attribute(1e-5)},
                   {"stash_type", Attribute(ElementType::f32)}},
    .infer =
        [](Infer& c) {
          require_channels(c, {1, 2});
          const int64_t groups = c.integer("num_groups");
          c.check(groups > 0, "num_groups is {}, expected at least 1", groups);
          c.require_equal(Dim::mod(c.dim(0, 1), groups), 0, "channels as a multiple of num_groups");
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const Dim groups = e.integer("num_groups");
          Dim size = Dim::floor_div(e.dim(0, 1), groups);
          for (int axis = 2; axis < e.rank(0); ++axis) size = size * e.dim(0, axis);
          Value* x = b.reshape(widen(b, e.operand(0)), {e.dim(0, 0), groups, size});
          Value* one = b.scalar(x->type().element, 1);
          x = b(ops::layer_normalization, {x, one}, {{"epsilon", e.number("epsilon")}});
          x = b.reshape(x, e.dims(0));
          const auto column = [&](int i) {
            return as_column(b, widen(b, e.operand(i)), e.rank(0) - 2);
          };
          conclude(e, b(ops::add, {b(ops::mul, {x, column(1)}), column(2)}));
        },
}};

}  // namespace lathe
