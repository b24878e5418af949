// SPDX-License-Identifier: MIT
#include <numeric>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// As Infer::axes.
std::vector<int> cropped_axes(const Evaluation& c, int rank) {
  std::vector<int> axes;
  if (c.has_attribute("axes")) {
    for (const int64_t axis : c.integers("axes")) {
      axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
    }
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

void infer_center_crop_pad(Infer& c) {
  const std::vector<int> axes = c.axes("axes", c.rank(0));
  c.require_equal(element_count(c.dims(1)), static_cast<int64_t>(axes.size()), "entries of shape");
  std::vector<Dim> dims = c.dims(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::vector<Dim>* shape = c.elements(1);
    dims[static_cast<size_t>(axes[i])] = shape != nullptr ? (*shape)[i] : c.found("cropped");
  }
  c.result(c.element(0), std::move(dims));
}

void eval_center_crop_pad(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const std::vector<int64_t> shape = c.values(1);
  const std::vector<int> axes = cropped_axes(c, x.view().rank);
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
  with_raw_type(x.view().type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for_each_index(out.view().extents(), [&](std::span<const int64_t> at) {
      out.view().as<T>()[offset_of(out.view(), at)] = T{};
    });
    for_each_index(to.extents(), [&](std::span<const int64_t> at) {
      to.as<T>()[offset_of(to, at)] = from.as<T>()[offset_of(from, at)];
    });
  });
  out.store();
}

}  // namespace

static const Register center_crop_pad{{
    .name = "center_crop_pad",
    .doc = "x cropped or padded with zeros around its centre, so that `axes` have sizes `shape`.",
    .operands = {{"x"}, {"shape", kIndices}},
    .attributes = {{"axes", AttributeKind::integers, false}},
    .on_host = {1},
    .infer = infer_center_crop_pad,
    .eval = eval_center_crop_pad,
}};

}  // namespace lathe
