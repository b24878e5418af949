// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/views.h"

namespace lathe {

static const Register string_concat{{
    .name = "string_concat",
    .doc = "Concatenates each string of x with that of y.",
    .operands = {{"x", kString}, {"y", kString}},
    .infer = [](Infer& c) { c.result(ElementType::string, c.broadcast_operands()); },
    .eval =
        [](Evaluation& c) {
          const TensorView& out = c.out(0, broadcast_extents(c));
          const TensorView x = broadcast_to(c.in(0), out.extents());
          const TensorView y = broadcast_to(c.in(1), out.extents());
          for_each_index(out.extents(), [&](std::span<const int64_t> at) {
            out.as<std::string>()[offset_of(out, at)] =
                x.as<std::string>()[offset_of(x, at)] + y.as<std::string>()[offset_of(y, at)];
          });
        },
}};

}  // namespace lathe
