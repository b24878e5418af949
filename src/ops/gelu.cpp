// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register gelu_op{{
    .name = "gelu",
    .doc = "x * P(X <= x) of the normal distribution, by erf or by tanh(0.79788456 (x + 0.044715 "
           "x^3)).",
    .operands = {{"x", kFloats}},
    .attributes = {{"approximate", "none"}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      if (f.text("approximate") == "none") return gelu(x);
      return max(x, -64) * 0.5 * (1 + tanh((x + x * x * x * 0.044715) * 0.79788456080286536));
    },
}};

}  // namespace lathe
