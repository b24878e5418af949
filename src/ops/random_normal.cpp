// SPDX-License-Identifier: MIT
#include <cmath>
#include <numbers>

#include "ops/support/random.h"

namespace lathe {

static const Register random_normal{{
    .name = "random_normal",
    .doc = "Normally distributed random numbers, which depend on seed and counter.",
    .operands = random_operands(),
    .attributes = random_attributes("mean", 0, "scale", 1),
    .on_host = {0},
    .infer = infer_random,
    .eval =
        [](Evaluation& c) {
          // The Box-Muller transform; 1 - u is never 0.
          eval_random(c, [](const Evaluation& e, const PhiloxBlock& bits) {
            const double radius = std::sqrt(-2 * std::log(1 - uniform_53(bits)));
            const double angle = 2 * std::numbers::pi * (static_cast<double>(bits[2]) * 0x1p-32);
            return e.number("mean") + e.number("scale") * radius * std::cos(angle);
          });
        },
}};

}  // namespace lathe
