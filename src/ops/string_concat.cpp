// SPDX-License-Identifier: MIT
#include <functional>

#include "ir/infer.h"
#include "ops/support/texts.h"

namespace lathe {

static const Register string_concat{{
    .name = "string_concat",
    .doc = "Concatenates each string of x with that of y.",
    .operands = {{"x", kString}, {"y", kString}},
    .infer = [](Infer& c) { c.result(ElementType::string, c.broadcast_operands()); },
    .eval = [](Evaluation& c) { map_texts<std::string>(c, std::plus<std::string>()); },
}};

}  // namespace lathe
