// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/axes.h"
#include "ops/support/composite.h"
#include "ops/support/requirements.h"

namespace lathe {

static const Register center_crop_pad{{
    .name = "center_crop_pad",
    .doc = "x cropped or padded with zeros around its centre, so that `axes` have sizes `shape`.",
    .operands = {{"x"}, {"shape", kIndices}},
    .attributes = {{"axes", Attribute(Integers{})}},
    .on_host = {1},
    .infer =
        [](Infer& c) {
          const std::vector<int> axes = c.axes("axes", c.rank(0));
          std::vector<Dim> dims = c.dims(0);
          size_t next = 0;
          for (Dim& dim : dims_of_elements(c, 1, 0, std::ssize(axes), "cropped")) {
            dims[static_cast<size_t>(axes[next++])] = std::move(dim);
          }
          c.result(c.element(0), std::move(dims));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const std::vector<int> axes = named_axes(e.integers("axes"), e.rank(0));
          std::vector<Dim> sizes;
          for (const int axis : axes) sizes.push_back(e.dim(0, axis));
          // Half of what is added or removed, toward zero, is before x.
          Value* change = b(ops::sub, {b.cast(e.operand(1), ElementType::i64), b.dims(sizes)});
          Value* before = b(ops::div, {change, b.scalar(ElementType::i64, 2)});
          Value* pads = b(ops::concat, {before, b(ops::sub, {change, before})}, {{"axis", 0}});
          Value* on = b.integers({axes.begin(), axes.end()});
          e.result(b(ops::pad, {e.operand(0), pads, nullptr, on}));
        },
}};

}  // namespace lathe
