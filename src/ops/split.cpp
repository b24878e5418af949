// SPDX-License-Identifier: MIT
// Without `split` all parts have equal size, except that the last may be smaller.
#include <numeric>

#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

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
    copy_elements(part, out.view());
    out.store();
  }
}

bool view_split(ViewRequest& v) {
  if (is_packed(v.operand.type)) return false;
  const int64_t written = v.integer("axis");
  const int axis = static_cast<int>(written < 0 ? written + v.operand.rank : written);
  const auto count = static_cast<int64_t>(v.instruction->results().size());
  int64_t begin = 0;
  if (v.instruction->operands().size() > 1) {
    if (!v.is_known(1)) return false;
    const auto parts = v.known(1);
    begin = std::accumulate(parts.begin(), parts.begin() + v.index, int64_t{0});
  } else {
    begin = v.index * ((v.operand.dims[axis] + count - 1) / count);
  }
  v.result = narrow(v.operand, axis, begin, v.result.dims[axis]);
  return true;
}

}  // namespace

static const Register split{{
    .name = "split",
    .doc = "Splits x along an axis into parts of the sizes `split`, or into equal parts.",
    .operands = {{"x"}, {"split", types(ElementType::i64), Arity::optional}},
    .attributes = {{"axis", 0}, {"num_outputs", AttributeKind::integer, false}},
    .results = -1,
    .infer = infer_split,
    .eval = eval_split,
    .view = view_split,
}};

}  // namespace lathe
