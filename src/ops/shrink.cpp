// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register shrink_op{{
    .name = "shrink",
    .doc = "x + bias below -lambd, x - bias above lambd, else 0.",
    .operands = {{"x", kFloats}},
    .attributes = {{"bias", 0.0}, {"lambd", 0.5}},
    .formula =
        [](const Formula& f) {
          Expr x = f.x(0);
          const double lambd = f.number("lambd");
          const double bias = f.number("bias");
          return select(x < -lambd, x + bias, select(x > lambd, x - bias, x * 0));
        },
}};

}  // namespace lathe
