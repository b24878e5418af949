// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register bit_shift_op{{
    .name = "bit_shift",
    .doc = "x shifted by y bits; right shifts of signed integers fill with the sign.",
    .operands = {{"x", kIntegers, Arity::one, 'T'}, {"y", kIntegers, Arity::one, 'T'}},
    .attributes = {{"direction", AttributeKind::text}},
    .formula = [](const Formula& f) -> Expr {
      return f.text("direction") == "LEFT" ? f.x(0) << f.x(1) : f.x(0) >> f.x(1);
    },
}};

}  // namespace lathe
