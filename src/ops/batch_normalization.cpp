// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register batch_normalization{{
    .name = "batch_normalization",
    .doc = "(x - mean) / sqrt(var + epsilon) · scale + bias per channel; running statistics.",
    .operands = float_operands({"x", "scale", "bias", "mean", "var"}),
    .attributes = {{"epsilon", Attribute(1e-5)},
                   {"momentum", Attribute(0.9)},
                   {"training_mode", Attribute(false)}},
    .results = 3,
    .infer =
        [](Infer& c) {
          require_channels(c, {1, 2, 3, 4});
          for (const int i : {0, 3, 4}) c.result(c.element(i), c.dims(i));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto wide = [&](int i) { return widen(b, e.operand(i)); };
          const auto column = [&](Value* v) { return as_column(b, v, e.rank(0) - 2); };
          Value* x = wide(0);
          const Moments running = {wide(3), wide(4)};
          const bool training = e.boolean("training_mode");
          const Moments used = training ? channel_moments(b, x) : running;
          Value* epsilon = b.scalar(x->type().element, e.number("epsilon"));
          Value* deviation = b(ops::sqrt, {b(ops::add, {used.variance, epsilon})});
          Value* factor = column(b(ops::div, {wide(1), deviation}));
          Value* y = b(ops::mul, {b(ops::sub, {x, column(used.mean)}), factor});
          conclude(e, b(ops::add, {y, column(wide(2))}));
          const auto next = [&](Value* old, Value* now) {
            return training ? blend(b, old, now, e.number("momentum")) : old;
          };
          conclude(e, next(running.mean, used.mean));
          conclude(e, next(running.variance, used.variance));
        },
}};

}  // namespace lathe
