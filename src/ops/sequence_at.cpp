// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register sequence_at{{
    .name = "sequence_at",
    .doc = "The item at a position; negative positions count from the end.",
    .operands = {{.name = "sequence", .kind = Type::Kind::sequence}, {"position", kIndices}},
    .traits = kTakesUnranked,
    .infer = [](Infer& c) { c.result(*c.type(0).item); },
    .eval =
        [](Evaluation& c) {
          const std::vector<Box>& items = c.box(0).sequence();
          const auto count = static_cast<int64_t>(items.size());
          const int64_t at = sequence_place(c, 1, -count, count - 1);
          set_result(c, items[static_cast<size_t>(at < 0 ? at + count : at)]);
        },
}};

}  // namespace lathe
