// SPDX-License-Identifier: MIT
// Without `split` all parts have equal size, except that the last may be smaller.
#include <numeric>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

std::vector<Dim> part_dims(Infer& c, const Dim& extent) {
  const int count = c.expected_results();
  if (c.has(1)) {
    const std::vector<Dim>* parts = c.elements(1);
    const std::optional<int64_t> length = known_length(c, 1);
    c.check(!length || *length == count, "got {} parts, the instruction has {} results",
            length.value_or(0), count);
    std::vector<Dim> dims;
    Dim sum = 0;
    for (int i = 0; i < count; ++i) {
      dims.push_back(parts != nullptr ? (*parts)[static_cast<size_t>(i)] : c.found("split"));
      c.check(!dims.back().is_constant() || *dims.back().constant() >= 0,
              "part {} has size {}, expected at least 0", i, dims.back().to_string());
      sum = sum + dims.back();
    }
    if (parts != nullptr) c.require_equal(sum, extent, "sum of the parts");
    return dims;
  }
  const Dim part = Dim::ceil_div(extent, count);
  std::vector<Dim> dims(static_cast<size_t>(count), part);
  dims.back() = extent - part * (count - 1);
  if (c.has_attribute("num_outputs")) {
    c.check(c.integer("num_outputs") == count, "num_outputs is {}, the instruction has {} results",
            c.integer("num_outputs"), count);
    c.require_less_equal(0, dims.back(), "size of the last part");
  } else {
    c.require_equal(dims.back(), part, "parts of equal size");
  }
  return dims;
}

void infer_split(Infer& c) {
  const int axis = c.axis("axis", c.rank(0));
  const std::vector<Dim> parts = part_dims(c, c.dim(0, axis));
  const auto elements = moved_elements(c, {0});
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<Dim> dims = c.dims(0);
    dims[static_cast<size_t>(axis)] = parts[i];
    c.result(c.element(0), std::move(dims));
    if (elements[i]) c.result_elements(*elements[i]);
  }
}

std::vector<int64_t> part_extents(const Evaluation& c, int64_t extent) {
  const auto count = static_cast<int64_t>(c.results());
  std::vector<int64_t> parts;
  if (c.has(1)) {
    parts = c.values(1);
    c.check(static_cast<int64_t>(parts.size()) == count, "got {} parts for {} results",
            parts.size(), count);
  } else {
    const int64_t part = (extent + count - 1) / count;
    parts.assign(static_cast<size_t>(count), part);
    parts.back() = extent - part * (count - 1);
  }
  int64_t sum = 0;
  for (const int64_t part : parts) {
    c.check(part >= 0 && part <= extent, "a part has size {}, the axis has size {}", part, extent);
    sum += part;
  }
  c.check(sum == extent, "the parts [{}] sum to {}, the axis has size {}", fmt::join(parts, ", "),
          sum, extent);
  return parts;
}

void eval_split(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const int axis = c.axis("axis", x.view().rank);
  int64_t begin = 0;
  const std::vector<int64_t> parts = part_extents(c, x.view().dims[axis]);
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorView part = narrow(x.view(), axis, begin, parts[i]);
    begin += parts[i];
    const UnpackedResult out(c.out(static_cast<int>(i), part.extents()));
    copy_elements(part, out.view(), c.pool);
    out.store();
  }
}

template <class M>
void map_split(M& m) {
  const int axis = m.axis("axis", m.rank(0));
  typename M::Index begin = 0;
  if (m.has(1)) {
    for (int part = 0; part < m.result(); ++part) begin = begin + m.value(1, part);
  } else {
    begin = M::ceil_div(m.extent(0, axis), m.results()) * m.result();
  }
  auto from = m.indices();
  from[static_cast<size_t>(axis)] = begin + from[static_cast<size_t>(axis)];
  m.read(0, from);
}

}  // namespace

static const Register split{{
    .name = "split",
    .doc = "Splits x along an axis into parts of the sizes `split`, or into equal parts.",
    .operands = {{"x"}, {"split", types(ElementType::i64), Arity::optional}},
    .attributes = {{"axis", 0}, {"num_outputs", AttributeKind::integer, false}},
    .on_host = {1},
    .results = -1,
    .infer = infer_split,
    .eval = eval_split,
    .map = [](auto& m) { map_split(m); },
    .view = affine_view,
}};

}  // namespace lathe
