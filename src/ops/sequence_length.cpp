// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register sequence_length{{
    .name = "sequence_length",
    .doc = "The number of items, as an i64 scalar.",
    .operands = {{.name = "sequence", .kind = Type::Kind::sequence}},
    .traits = kTakesUnranked,
    .infer = [](Infer& c) { c.result(ElementType::i64, {}); },
    .eval =
        [](Evaluation& c) {
          *c.out(0, {}).as<int64_t>() = static_cast<int64_t>(c.box(0).sequence().size());
        },
}};

}  // namespace lathe
