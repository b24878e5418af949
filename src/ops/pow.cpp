// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register pow_op{{
    .name = "pow",
    .doc = "a to the power b, in the type of a.",
    .operands = {{"a", kFloats | kSigned}, {"b", kNumeric}},
    .formula = [](const Formula& f) -> Expr {
      const Expr a = f.x(0);
      const Expr b = f.x(1);
      if (is_floating(a.type()) || !is_floating(b.type())) return pow(a, convert(b, a.type()));
      return convert(pow(convert(a, b.type()), b), a.type());
    },
}};

}  // namespace lathe
