// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_compress(Infer& c) {
  c.check(c.rank(1) == 1, "the condition has rank {}, expected 1", c.rank(1));
  const bool flat = !c.has_attribute("axis");
  std::vector<Dim> dims = flat ? std::vector<Dim>{element_count(c.dims(0))} : c.dims(0);
  Dim& extent = dims[static_cast<size_t>(flat ? 0 : c.axis("axis", c.rank(0)))];
  c.require_less_equal(c.dim(1, 0), extent, "number of conditions and elements");
  extent = c.found("compress", {0, extent.range().max});
  c.result(c.element(0), std::move(dims));
}

void eval_compress(Evaluation& c) {
  const UnpackedOperand given(c.in(0));
  TensorView x = given.view();
  Tensor flat;
  int axis = 0;
  if (c.has_attribute("axis")) {
    axis = c.axis("axis", x.rank);
  } else {
    flat = Tensor(x.type, {x.count()});
    copy_flat(x, flat.view());
    x = flat.view();
  }
  const std::vector<int64_t> condition = c.values(1);
  c.check(static_cast<int64_t>(condition.size()) <= x.dims[axis],
          "{} conditions for an axis of size {}", condition.size(), x.dims[axis]);
  Dims dims = dims_of(x);
  dims[static_cast<size_t>(axis)] =
      std::count_if(condition.begin(), condition.end(), [](int64_t v) { return v != 0; });
  const UnpackedResult out(c.out(0, dims));
  int64_t to = 0;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] == 0) continue;
    copy_elements(select_axis(x, axis, static_cast<int64_t>(i)),
                  select_axis(out.view(), axis, to++));
  }
  out.store();
}

}  // namespace

static const Register compress{{
    .name = "compress",
    .doc =
        "The slices along an axis (or the elements, without an axis) where the condition is true.",
    .operands = {{"x"}, {"condition", kBoolean}},
    .attributes = {{"axis", AttributeKind::integer, false}},
    .infer = infer_compress,
    .eval = eval_compress,
}};

}  // namespace lathe
