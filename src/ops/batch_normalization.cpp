// SPDX-License-Identifier: MIT
#include "ops/composite.h"

namespace lathe {
namespace {

void expand_batch_normalization(Expansion& e) {
  Builder& b = e.b;
  const ElementType type = composite_type(e.element(0));
  Value* x = widen(b, e.operand(0));
  Value* mean = b.cast(e.operand(3), type);
  Value* variance = b.cast(e.operand(4), type);
  const int trailing = e.rank(0) - 2;
  const auto column = [&](Value* vector) { return as_column(b, vector, trailing); };
  Value* next[] = {mean, variance};
  if (e.boolean("training_mode")) {
    // The batch's own statistics; the running ones move towards them.
    std::vector<int64_t> axes = axis_range(1, e.rank(0));
    axes[0] = 0;
    const auto average = [&](Value* of) {
      return b.reshape(reduce(b, "reduce_mean", of, axes), {e.dim(0, 1)});
    };
    mean = average(x);
    Value* centred = b("sub", {x, column(mean)});
    variance = average(b("mul", {centred, centred}));
    Value* momentum = b.scalar(type, e.number("momentum"));
    Value* rest = b.scalar(type, 1 - e.number("momentum"));
    next[0] = b("add", {b("mul", {next[0], momentum}), b("mul", {mean, rest})});
    next[1] = b("add", {b("mul", {next[1], momentum}), b("mul", {variance, rest})});
  }
  Value* deviation = b("sqrt", {b("add", {variance, b.scalar(type, e.number("epsilon"))})});
  Value* factor = b("div", {b.cast(e.operand(1), type), deviation});
  Value* y = b("mul", {b("sub", {x, column(mean)}), column(factor)});
  conclude(e, b("add", {y, column(b.cast(e.operand(2), type))}));
  conclude(e, next[0]);
  conclude(e, next[1]);
}

}  // namespace

static const Register batch_normalization{{
    .name = "batch_normalization",
    .doc =
        "(x - mean) / sqrt(variance + epsilon) · scale + bias per channel, and running statistics.",
    .operands = {{"x", kFloats},
                 {"scale", kFloats},
                 {"bias", kFloats},
                 {"mean", kFloats},
                 {"variance", kFloats}},
    .attributes = {{"epsilon", Attribute(1e-5)},
                   {"momentum", Attribute(0.9)},
                   {"training_mode", Attribute(false)}},
    .results = 3,
    .infer =
        [](Infer& c) {
          require_channels(c, {1, 2, 3, 4});
          c.result(c.element(0), c.dims(0));
          c.result(c.element(3), c.dims(3));
          c.result(c.element(4), c.dims(4));
        },
    .expand = expand_batch_normalization,
}};

}  // namespace lathe
