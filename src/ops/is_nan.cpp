// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register is_nan_op{{
    .name = "is_nan",
    .doc = "True where x is NaN.",
    .operands = {{"x", kFloats | kFloat8}},
    .result_element = ElementType::boolean,
    .formula = [](const Formula& f) { return is_nan(f.x(0)); },
}};

}  // namespace lathe
