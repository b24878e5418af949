// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register swiglu_op{{
    .name = "swiglu",
    .doc = "a * sigmoid(alpha * a) * b.",
    .operands = {{"a", kFloats, Arity::one, 'T'}, {"b", kFloats, Arity::one, 'T'}},
    .attributes = {{"alpha", 1.0}},
    .formula = [](const Formula& f) -> Expr {
      return f.x(0) * sigmoid(f.x(0) * f.number("alpha")) * f.x(1);
    },
}};

}  // namespace lathe
