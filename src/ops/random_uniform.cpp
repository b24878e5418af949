// SPDX-License-Identifier: MIT
#include "ops/support/random.h"

namespace lathe {

static const Register random_uniform{{
    .name = "random_uniform",
    .doc = "Random numbers of [low, high), which depend on seed and counter.",
    .operands = random_operands(),
    .attributes = random_attributes("low", 0, "high", 1),
    .on_host = {0},
    .infer = infer_random,
    .eval =
        [](Evaluation& c) {
          eval_random(c, [](const Evaluation& e, const PhiloxBlock& bits) {
            const bool wide = e.element_type("dtype") == ElementType::f64;
            const double low = e.number("low");
            return low + (wide ? uniform_53(bits) : uniform_24(bits)) * (e.number("high") - low);
          });
        },
}};

}  // namespace lathe
