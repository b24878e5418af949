// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register lrn{{
    .name = "lrn",
    .doc = "x / (bias + alpha · mean of squares over `size` neighbouring channels)^beta.",
    .operands = {{"x", kFloats}},
    .attributes = {{"size", AttributeKind::integer},
                   {"alpha", Attribute(1e-4)},
                   {"beta", Attribute(0.75)},
                   {"bias", Attribute(1.0)}},
    .infer =
        [](Infer& c) {
          require_channels(c, {});
          c.check(c.integer("size") > 0, "size is {}, expected at least 1", c.integer("size"));
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const int64_t size = e.integer("size");
          Value* x = widen(b, e.operand(0));
          const auto constant = [&](std::string_view name) {
            return b.scalar(x->type().element, e.number(name));
          };
          // A mean over channels that counts zeros beyond the edges: average pooling with padding.
          Dim rest = 1;
          for (int axis = 2; axis < e.rank(0); ++axis) rest = rest * e.dim(0, axis);
          Value* square = b.reshape(b(ops::mul, {x, x}), {e.dim(0, 0), 1, e.dim(0, 1), rest});
          Value* mean = b(ops::average_pool, {square},
                          {{"kernel_shape", Integers{size, 1}},
                           {"pads", Integers{(size - 1) / 2, 0, size / 2, 0}},
                           {"count_include_pad", true}});
          mean = b.reshape(mean, e.dims(0));
          Value* base = b(ops::add, {b(ops::mul, {mean, constant("alpha")}), constant("bias")});
          conclude(e, b(ops::div, {x, b(ops::pow, {base, constant("beta")})}));
        },
}};

}  // namespace lathe
