// SPDX-License-Identifier: MIT
#include "ops/support/convert_operands.h"
#include "ops/support/sequence.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_concat_from_sequence(Infer& c) {
  const Type& item = *c.type(0).item;
  c.check(item.is_tensor(), "items are {}, expected tensors", item.to_string());
  if (!item.dims) return c.result(item);
  std::vector<Dim> dims = *item.dims;
  const bool fresh = c.boolean("new_axis");
  const int axis = c.axis("axis", item.rank() + (fresh ? 1 : 0));
  if (fresh) dims.insert(dims.begin() + axis, Dim(0));
  dims[static_cast<size_t>(axis)] = c.found("concat");
  c.result(item.element, std::move(dims));
}

void eval_concat_from_sequence(Evaluation& c) {
  const std::vector<Box>& items = c.box(0).sequence();
  c.check(!items.empty(), "the sequence has {} items, so the result has no shape", items.size());
  const bool fresh = c.boolean("new_axis");
  const Tensor& first = items.front().tensor();
  const int axis = c.axis("axis", first.rank() + (fresh ? 1 : 0));
  std::vector<TensorView> parts;
  int64_t total = 0;
  for (const Box& item : items) {
    TensorView part = item.tensor().view();
    c.check(part.rank == first.rank(), "an item has rank {}, the first has rank {}", part.rank,
            first.rank());
    if (fresh) part = insert_axis(part, axis);
    total += part.dims[axis];
    parts.push_back(part);
  }
  Dims dims = dims_of(parts.front());
  dims[static_cast<size_t>(axis)] = total;
  const UnpackedResult out(c.out(0, dims));
  int64_t begin = 0;
  for (const TensorView& view : parts) {
    const UnpackedOperand part(view);
    const TensorView place = narrow(out.view(), axis, begin, view.dims[axis]);
    begin += view.dims[axis];
    c.check(std::ranges::equal(place.extents(), view.extents()),
            "an item has shape [{}], the first has [{}]", fmt::join(view.extents(), ", "),
            fmt::join(first.dims(), ", "));
    copy_elements(part.view(), place);
  }
  out.store();
}

}  // namespace

static const Register concat_from_sequence{{
    .name = "concat_from_sequence",
    .doc = "Concatenates the items of a sequence along an axis, or stacks them along a new one.",
    .operands = {{.name = "sequence", .kind = Type::Kind::sequence}},
    .attributes = {{"axis", AttributeKind::integer}, {"new_axis", Attribute(false)}},
    .traits = kTakesUnranked,
    .infer = infer_concat_from_sequence,
    .eval = eval_concat_from_sequence,
}};

}  // namespace lathe
