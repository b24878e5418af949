// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/views.h"

namespace lathe {

static const Register string_equal{{
    .name = "string_equal",
    .doc = "True where two strings have equal bytes.",
    .operands = {{"a", kString}, {"b", kString}},
    .traits = kCommutative,
    .infer = [](Infer& c) { c.result(ElementType::boolean, c.broadcast_operands()); },
    .eval =
        [](Evaluation& c) {
          const TensorView& out = c.out(0, broadcast_extents(c));
          const TensorView a = broadcast_to(c.in(0), out.extents());
          const TensorView b = broadcast_to(c.in(1), out.extents());
          for_each_index(out.extents(), [&](std::span<const int64_t> at) {
            out.as<uint8_t>()[offset_of(out, at)] =
                a.as<std::string>()[offset_of(a, at)] == b.as<std::string>()[offset_of(b, at)];
          });
        },
}};

}  // namespace lathe
