// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register sequence_empty{{
    .name = "sequence_empty",
    .doc = "An empty sequence of tensors of one element type.",
    .attributes = {{"dtype", Attribute(ElementType::f32)}},
    .infer = [](Infer& c) { c.result(Type::sequence(Type::unranked(c.element_type("dtype")))); },
    .eval = [](Evaluation& c) { c.set_box(0, make_sequence({})); },
}};

}  // namespace lathe
