// SPDX-License-Identifier: MIT
#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {

static const Register hardmax{{
    .name = "hardmax",
    .doc = "1 at the first greatest element along an axis, 0 elsewhere.",
    .operands = {{"x", kFloats}},
    .attributes = {{"axis", -1}},
    .infer =
        [](Infer& c) {
          c.axis("axis", c.rank(0));
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          const int axis = e.axis("axis", e.rank(0));
          Value* place =
              e.b(ops::arg_max, {e.operand(0)}, {{"axis", int64_t{axis}}, {"keep_dims", false}});
          Value* depth = e.b.dims({e.dim(0, axis)});
          Tensor off_on(ElementType::f32, {2});
          off_on.as<float>()[1] = 1.0F;
          Value* values = e.b.cast(e.b.literal(std::move(off_on)), e.element(0));
          e.result(e.b(ops::one_hot, {place, depth, values}, {{"axis", int64_t{axis}}}));
        },
}};

}  // namespace lathe
