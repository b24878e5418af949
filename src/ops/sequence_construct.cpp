// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register sequence_construct{{
    .name = "sequence_construct",
    .doc = "A sequence of the operands.",
    .operands = {{.name = "items", .arity = Arity::variadic, .group = 'T'}},
    .traits = kTakesUnranked,
    .infer =
        [](Infer& c) {
          c.check(c.count() > 0, "got {} operands, expected at least one", c.count());
          Type type = Type::sequence(c.type(0));
          for (int i = 1; i < c.count(); ++i) type = joined_sequence(c, type, c.type(i));
          c.result(std::move(type));
        },
    .eval =
        [](Evaluation& c) {
          std::vector<Box> items;
          for (int i = 0; i < c.count(); ++i) items.push_back(c.box(i));
          c.set_box(0, make_sequence(std::move(items)));
        },
}};

}  // namespace lathe
