// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register sequence_erase{{
    .name = "sequence_erase",
    .doc = "The sequence without the item at a position; default: the last one.",
    .operands = {{.name = "sequence", .kind = Type::Kind::sequence},
                 {"position", kIndices, Arity::optional}},
    .traits = kTakesUnranked,
    .infer = [](Infer& c) { c.result(c.type(0)); },
    .eval =
        [](Evaluation& c) {
          std::vector<Box> items = c.box(0).sequence();
          const auto count = static_cast<int64_t>(items.size());
          c.check(count > 0, "the sequence has {} items, expected at least one", count);
          int64_t at = c.has(1) ? sequence_place(c, 1, -count, count - 1) : count - 1;
          if (at < 0) at += count;
          items.erase(items.begin() + at);
          c.set_box(0, make_sequence(std::move(items)));
        },
}};

}  // namespace lathe
