// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register sequence_insert{{
    .name = "sequence_insert",
    .doc = "The sequence with an item inserted before a position; default: at the end.",
    .operands = {{.name = "sequence", .kind = Type::Kind::sequence},
                 {"item"},
                 {"position", kIndices, Arity::optional}},
    .traits = kTakesUnranked,
    .infer = [](Infer& c) { c.result(joined_sequence(c, c.type(0), c.type(1))); },
    .eval =
        [](Evaluation& c) {
          std::vector<Box> items = c.box(0).sequence();
          const auto count = static_cast<int64_t>(items.size());
          int64_t at = c.has(2) ? sequence_place(c, 2, -count, count) : count;
          if (at < 0) at += count;
          items.insert(items.begin() + at, c.box(1));
          c.set_box(0, make_sequence(std::move(items)));
        },
}};

}  // namespace lathe
