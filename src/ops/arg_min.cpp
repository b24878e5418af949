// SPDX-License-Identifier: MIT
#include "ops/support/arg.h"

namespace lathe {

static const Register arg_min{{
    .name = "arg_min",
    .doc = "The index of the smallest element along an axis; ties take the first, or the last.",
    .operands = {{"x", kNumeric}},
    .attributes = arg_attributes(),
    .infer = infer_arg,
    .eval = [](Evaluation& c) { eval_arg(c, false); },
}};

}  // namespace lathe
