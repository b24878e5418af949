// SPDX-License-Identifier: MIT
// `split` absent: one slice per part. A scalar: the size of all parts (the last may be smaller). A
// vector: the sizes of the parts.
#include "ops/support/convert_operands.h"
#include "ops/support/sequence.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_split_to_sequence(Infer& c) {
  const int axis = c.axis("axis", c.rank(0));
  if (c.has(1)) {
    c.check(c.rank(1) <= 1, "split has rank {}, expected 0 or 1", c.rank(1));
    // Parts may differ in size.
    c.result(Type::sequence(Type::unranked(c.element(0))));
    return;
  }
  std::vector<Dim> dims = c.dims(0);
  if (c.boolean("keep_dims")) {
    dims[static_cast<size_t>(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  c.result(Type::sequence(Type::tensor(c.element(0), std::move(dims))));
}

std::vector<int64_t> sequence_extents(const Evaluation& c, int64_t extent) {
  if (!c.has(1)) return std::vector<int64_t>(static_cast<size_t>(extent), 1);
  std::vector<int64_t> parts = c.values(1);
  if (c.in(1).rank == 1) {
    int64_t sum = 0;
    for (const int64_t part : parts) {
      c.check(part >= 0 && part <= extent, "a part has size {}, the axis has size {}", part,
              extent);
      sum += part;
    }
    c.check(sum == extent, "the parts [{}] sum to {}, the axis has size {}", fmt::join(parts, ", "),
            sum, extent);
    return parts;
  }
  const int64_t part = parts.front();
  c.check(part > 0, "parts have size {}, expected at least 1", part);
  parts.clear();
  for (int64_t begin = 0; begin < extent; begin += part) {
    parts.push_back(std::min(part, extent - begin));
  }
  return parts;
}

void eval_split_to_sequence(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const int axis = c.axis("axis", x.view().rank);
  const bool drop = !c.has(1) && !c.boolean("keep_dims");
  std::vector<Box> items;
  int64_t begin = 0;
  for (const int64_t extent : sequence_extents(c, x.view().dims[axis])) {
    TensorView part = narrow(x.view(), axis, begin, extent);
    begin += extent;
    if (drop) part = select_axis(part, axis, 0);
    const Tensor item(c.in(0).type, dims_of(part));
    const UnpackedResult out(item.view());
    copy_elements(part, out.view());
    out.store();
    items.push_back(Box{item});
  }
  c.set_box(0, make_sequence(std::move(items)));
}

}  // namespace

static const Register split_to_sequence{{
    .name = "split_to_sequence",
    .doc = "The parts of x along an axis, as a sequence.",
    .operands = {{"x"}, {"split", kIndices, Arity::optional}},
    .attributes = {{"axis", 0}, {"keep_dims", Attribute(true)}},
    .on_host = {1},
    .infer = infer_split_to_sequence,
    .eval = eval_split_to_sequence,
}};

}  // namespace lathe
