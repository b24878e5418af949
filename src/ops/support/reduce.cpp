// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"

#include <algorithm>
#include <array>

#include "ops/support/axes.h"
#include "ops/support/indices.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// Normalised axes; a repeated one counts once. Context is Infer or OpOrigin: both have check().
template <class Axes, class Context>
Axes distinct_axes(const Context& c, std::span<const int64_t> values, int rank) {
  Axes axes;
  for (const int64_t value : values) {
    c.check(value >= -rank && value < rank, "axis {} is out of range for rank {}", value, rank);
    const int axis = static_cast<int>(value < 0 ? value + rank : value);
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  }
  return axes;
}

// The axes of operand 1, read in blocks.
SmallVector<int> given_axes(const OpOrigin& origin, const OperandViews& c, int rank) {
  std::array<int64_t, kMaxRank> values;
  const int64_t count = c.in(1).count();
  if (count > static_cast<int64_t>(values.size())) {
    return distinct_axes<SmallVector<int>>(origin, c.values(1), rank);
  }
  const std::span<int64_t> all = std::span(values).first(static_cast<size_t>(count));
  load_values(c.in(1), 0, all);
  return distinct_axes<SmallVector<int>>(origin, all, rank);
}

// Normalised axes: those of the operand, or by default all or none; nullopt if unknown.
std::optional<std::vector<int>> reduced_axes(Infer& c) {
  std::optional<std::vector<int>> axes;
  if (c.has(1)) {
    if (const auto values = c.constants(1)) {
      axes = distinct_axes<std::vector<int>>(c, *values, c.rank(0));
    }
    if (!axes && known_length(c, 1) != 0) return std::nullopt;
  }
  if ((axes && !axes->empty()) || c.boolean("noop_with_empty_axes")) {
    return axes.value_or(std::vector<int>{});
  }
  axes.emplace();
  for (int axis = 0; axis < c.rank(0); ++axis) axes->push_back(axis);
  return axes;
}

void infer_unknown_axes(Infer& c) {
  const ElementType element = c.element(0);
  std::vector<Dim> dims;
  if (c.boolean("keep_dims")) {
    for (const Dim& dim : c.dims(0)) {
      dims.push_back(dim == Dim(1) ? Dim(1)
                                   : c.found("reduce", {0, std::max<int64_t>(dim.range().max, 1)}));
    }
    return c.result(element, std::move(dims));
  }
  const std::optional<int64_t> count = known_length(c, 1);
  if (!count) return c.result(Type::unranked(element));
  c.check(*count <= c.rank(0), "got {} axes, the rank is {}", *count, c.rank(0));
  c.result(element, *found_dims(c, c.rank(0) - *count, "reduce"));
}

}  // namespace

std::vector<OperandSpec> reduce_operands(TypeSet element_types) {
  return {{"x", element_types}, {"axes", types(ElementType::i64), Arity::optional}};
}

std::vector<AttributeSpec> reduce_attributes() {
  return {{"keep_dims", Attribute(true)}, {"noop_with_empty_axes", Attribute(false)}};
}

void infer_reduce(Infer& c, Dim (*fold)(const Dim& a, const Dim& b)) {
  const auto axes = reduced_axes(c);
  if (!axes) return infer_unknown_axes(c);
  std::vector<Dim> dims;
  for (int axis = 0; axis < c.rank(0); ++axis) {
    const bool gone = std::find(axes->begin(), axes->end(), axis) != axes->end();
    if (!gone || c.boolean("keep_dims")) dims.push_back(gone ? Dim(1) : c.dim(0, axis));
  }
  c.result(c.element(0), std::move(dims));
  const std::vector<Dim>* elements = c.elements(0);
  if (elements == nullptr || fold == nullptr || elements->empty() || c.rank(0) > 1) return;
  if (axes->empty()) return c.result_elements(*elements);
  c.try_result_elements([&] {
    Dim all = elements->front();
    for (size_t i = 1; i < elements->size(); ++i) all = fold(all, (*elements)[i]);
    return std::vector<Dim>{all};
  });
}

ReduceLoops reduce_loops(const ReduceAttributes& attributes, const OpOrigin& origin,
                         const OperandViews& c, const TensorView& x) {
  ReduceLoops loops;
  if (c.has(1)) loops.axes = given_axes(origin, c, x.rank);
  if (loops.axes.empty() && !attributes.keeps_all) {
    for (int axis = 0; axis < x.rank; ++axis) loops.axes.push_back(axis);
  }
  std::sort(loops.axes.begin(), loops.axes.end());
  loops.kept = x;
  for (const int axis : loops.axes) {
    const int64_t extent = x.dims[axis];
    loops.kept.dims[axis] = 1;
    loops.count *= extent;
    if (extent == 1) continue;
    // Merges adjacent axes that are contiguous.
    if (!loops.reduced.empty() && loops.reduced.back().stride == x.strides[axis] * extent) {
      loops.reduced.back() = {loops.reduced.back().extent * extent, x.strides[axis]};
    } else {
      loops.reduced.push_back({extent, x.strides[axis]});
    }
  }
  return loops;
}

SmallVector<int64_t> reduced_dims(const ReduceAttributes& attributes, const ReduceLoops& loops) {
  SmallVector<int64_t> dims;
  for (int axis = 0; axis < loops.kept.rank; ++axis) {
    const bool gone = std::binary_search(loops.axes.begin(), loops.axes.end(), axis);
    if (!gone || attributes.keeps_dims) dims.push_back(loops.kept.dims[axis]);
  }
  return dims;
}

TensorView with_reduced_axes(TensorView result, const ReduceLoops& loops) {
  if (result.rank == loops.kept.rank) return result;
  for (const int axis : loops.axes) result = insert_axis(result, axis);
  return result;
}

}  // namespace lathe
