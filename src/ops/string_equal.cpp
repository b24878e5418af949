// SPDX-License-Identifier: MIT
#include <functional>

#include "ir/infer.h"
#include "ops/support/texts.h"

namespace lathe {

static const Register string_equal{{
    .name = "string_equal",
    .doc = "True where two strings have equal bytes.",
    .operands = {{"a", kString}, {"b", kString}},
    .traits = kCommutative,
    .infer = [](Infer& c) { c.result(ElementType::boolean, c.broadcast_operands()); },
    .eval = [](Evaluation& c) { map_texts<uint8_t>(c, std::equal_to<std::string>()); },
}};

}  // namespace lathe
