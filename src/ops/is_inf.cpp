// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register is_inf_op{{
    .name = "is_inf",
    .doc = "True where x is infinite, with one of the requested signs.",
    .operands = {{"x", kFloats | kFloat8}},
    .attributes = {{"detect_negative", true}, {"detect_positive", true}},
    .result_element = ElementType::boolean,
    .formula = [](const Formula& f) -> Expr {
      return (f.x(0) == kInfinity && f.boolean("detect_positive")) ||
             (f.x(0) == -kInfinity && f.boolean("detect_negative"));
    },
}};

}  // namespace lathe
