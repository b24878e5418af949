// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register less_or_equal_op{{
    .name = "less_or_equal",
    .doc = "a <= b.",
    .operands = {{"a", kNumeric, Arity::one, 'T'}, {"b", kNumeric, Arity::one, 'T'}},
    .result_element = ElementType::boolean,
    .formula = [](const Formula& f) { return f.x(0) <= f.x(1); },
}};

}  // namespace lathe
