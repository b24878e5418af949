// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register shrink_op{{
    .name = "shrink",
    .doc = "x + bias below -lambd, x - bias above lambd, else 0.",
    .operands = {{"x", kNumeric}},
    .attributes = {{"bias", 0.0}, {"lambd", 0.5}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = is_floating(f.type()) ? f.x(0) : convert(f.x(0), ExprType::f64);
      const double lambd = f.number("lambd"), bias = f.number("bias");
      return convert(select(x < -lambd, x + bias, select(x > lambd, x - bias, 0)), f.type());
    },
}};

}  // namespace lathe
