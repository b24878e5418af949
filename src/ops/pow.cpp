// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register pow_op{{
    .name = "pow",
    .doc = "a^b in the type of a; integers and floats mixed compute in f64.",
    .operands = {{"a", kFloats | kSigned}, {"b", kNumeric}},
    .formula = [](const Formula& f) -> Expr {
      const Expr a = f.x(0), b = f.x(1);
      const bool alike = is_integer(a.type()) == is_integer(b.type());
      if (alike && b.type() != ExprType::f64) return pow(a, convert(b, a.type()));
      return convert(pow(convert(a, ExprType::f64), convert(b, ExprType::f64)), a.type());
    },
}};

}  // namespace lathe
