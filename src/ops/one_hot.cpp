// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// The new axis of the result.
template <class Context>
int added_axis(const Context& c, int64_t axis, int rank) {
  c.check(axis >= -rank - 1 && axis <= rank, "axis {} is out of range for rank {}", axis, rank + 1);
  return static_cast<int>(axis < 0 ? axis + rank + 1 : axis);
}

void infer_one_hot(Infer& c) {
  c.require_equal(element_count(c.dims(1)), 1, "number of elements of depth");
  c.check(c.rank(2) == 1, "values have rank {}, expected 1", c.rank(2));
  c.require_equal(c.dim(2, 0), 2, "number of values (off and on)");
  std::vector<Dim> dims = c.dims(0);
  const int axis = added_axis(c, c.integer("axis"), c.rank(0));
  const std::vector<Dim>* depth = c.elements(1);
  if (depth != nullptr) c.require_less_equal(0, depth->front(), "depth");
  dims.insert(dims.begin() + axis, depth != nullptr ? depth->front() : c.found("depth"));
  c.result(c.element(2), std::move(dims));
}

int64_t number_at(const TensorView& x, int64_t offset) {
  const void* place = shifted(x, offset).data;
  if (is_integer(x.type)) return load_int(x.type, place, 0);
  const double value = load_double(x.type, place, 0);
  return std::abs(value) < 0x1p62 ? static_cast<int64_t>(value) : -kUnbounded;
}

void eval_one_hot(Evaluation& c) {
  const TensorView& indices = c.in(0);
  c.check(c.in(1).count() == 1 && c.in(2).rank == 1 && c.in(2).dims[0] == 2,
          "depth has {} elements and values has {}, expected 1 and 2", c.in(1).count(),
          c.in(2).count());
  const int64_t depth = number_at(c.in(1), 0);
  c.check(depth >= 0, "depth is {}, expected at least 0", depth);
  const UnpackedOperand values(c.in(2));
  const TensorView off = narrow(values.view(), 0, 0, 1);
  const TensorView on = narrow(values.view(), 0, 1, 1);
  const int axis = added_axis(c, c.integer("axis"), indices.rank);
  Dims dims = dims_of(indices);
  dims.insert(dims.begin() + axis, depth);
  const UnpackedResult out(c.out(0, dims));
  fill_elements(off, out.view());
  for_each_index(indices.extents(), [&](std::span<const int64_t> index) {
    int64_t place = number_at(indices, offset_of(indices, index));
    if (place < 0) place += depth;
    if (place < 0 || place >= depth) return;  // all elements are off
    TensorView target = select_axis(out.view(), axis, place);
    for (const int64_t at : index) target = select_axis(target, 0, at);
    fill_elements(on, target);
  });
  out.store();
}

}  // namespace

static const Register one_hot{{
    .name = "one_hot",
    .doc = "Adds an axis of size `depth`, along which the element at the index is values[1] and "
           "others are values[0].",
    .operands = {{"indices", kNumeric}, {"depth", kNumeric}, {"values"}},
    .attributes = {{"axis", -1}},
    .on_host = {1},
    .infer = infer_one_hot,
    .eval = eval_one_hot,
}};

}  // namespace lathe
