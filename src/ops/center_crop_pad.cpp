// SPDX-License-Identifier: MIT
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_center_crop_pad(Infer& c) {
  const std::vector<int> axes = c.axes("axes", c.rank(0));
  c.require_equal(element_count(c.dims(1)), static_cast<int64_t>(axes.size()), "entries of shape");
  std::vector<Dim> dims = c.dims(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    dims[static_cast<size_t>(axes[i])] = dim_of_element(c, 1, i, "cropped");
  }
  c.result(c.element(0), std::move(dims));
}

void eval_center_crop_pad(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const std::vector<int64_t> shape = c.values(1);
  const std::vector<int> axes = named_axes(c.integers("axes"), x.view().rank);
  Dims dims(x.view().extents().begin(), x.view().extents().end());
  for (size_t i = 0; i < axes.size(); ++i) {
    c.check(shape[i] >= 0, "shape has the negative entry {}", shape[i]);
    dims[static_cast<size_t>(axes[i])] = shape[i];
  }
  const UnpackedResult out(c.out(0, dims));
  // The common part: centred in the larger of both, half rounded down.
  TensorView from = x.view();
  TensorView to = out.view();
  for (int axis = 0; axis < from.rank; ++axis) {
    const int64_t common = std::min(from.dims[axis], to.dims[axis]);
    from = narrow(from, axis, (from.dims[axis] - common) / 2, common);
    to = narrow(to, axis, (to.dims[axis] - common) / 2, common);
  }
  clear_elements(out.view());
  copy_elements(from, to);
  out.store();
}

}  // namespace

static const Register center_crop_pad{{
    .name = "center_crop_pad",
    .doc = "x cropped or padded with zeros around its centre, so that `axes` have sizes `shape`.",
    .operands = {{"x"}, {"shape", kIndices}},
    .attributes = {{"axes", Attribute(Integers{})}},
    .on_host = {1},
    .infer = infer_center_crop_pad,
    .eval = eval_center_crop_pad,
}};

}  // namespace lathe
