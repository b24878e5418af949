// SPDX-License-Identifier: MIT
// Shared by arg_max and arg_min.
#pragma once

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

std::vector<AttributeSpec> arg_attributes();
void infer_arg(Infer& c);
void eval_arg(Evaluation& c, bool greatest);

}  // namespace lathe
