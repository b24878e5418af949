// SPDX-License-Identifier: MIT
// Negative starts and ends count from the end. They are clamped to [0, d] going forward, and to [0,
// d - 1] and [-1, d - 1] going backward. Values from 2^31 - 1 on mean "to the end": exporters write
// INT_MAX as well as INT64_MAX.
#include <algorithm>
#include <limits>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int32_t>::max();

// Larger steps would overflow; they also select one element.
constexpr int64_t kLongestStep = int64_t{1} << 62;

bool is_far(const Dim& value) { return value.is_constant() && *value.constant() >= kEnd; }
bool is_far_back(const Dim& value) { return value.is_constant() && *value.constant() <= -kEnd; }

// A normalised start or end, not clamped; nullopt if its sign is unknown.
std::optional<Dim> from_front(const Dim& value, const Dim& extent) {
  const Range range = value.range();
  if (range.min >= 0) return value;
  if (range.max < 0) return value + extent;
  return std::nullopt;
}

// Size of a sliced axis; nullopt if it is unknown at inference.
std::optional<Dim> sliced_extent(const Dim& extent, const Dim& start, const Dim& end,
                                 int64_t step) {
  step = std::clamp(step, -kLongestStep, kLongestStep);
  const std::optional<Dim> first = from_front(start, extent);
  const std::optional<Dim> last = from_front(end, extent);
  if (!first || !last) return std::nullopt;
  if (step > 0) {
    if (is_far(start) || is_far_back(end)) return Dim(0);
    const Dim begin = is_far_back(start) ? Dim(0) : Dim::min(Dim::max(*first, 0), extent);
    if (is_far(end)) return Dim::ceil_div(extent - begin, step);
    const Dim length = Dim::min(Dim::max(*last, 0), extent) - begin;
    return Dim::max(Dim::ceil_div(length, step), 0);
  }
  const Dim top = extent - 1;
  const Dim begin = is_far(start) || start == Dim(-1) ? top : Dim::min(Dim::max(*first, 0), top);
  if (is_far_back(end)) return Dim::max(Dim::ceil_div(begin + 1, -step), 0);
  const Dim limit = is_far(end) ? top : Dim::min(Dim::max(*last, -1), top);
  return Dim::max(Dim::ceil_div(begin - limit, -step), 0);
}

// The axes of starts and ends, or nullopt.
std::optional<std::vector<int>> sliced_axes(const Infer& c) {
  if (c.has(3)) return known_axes(c, 3, c.rank(0));
  const std::optional<int64_t> count = known_length(c, 1);
  if (!count) return std::nullopt;
  c.check(*count <= c.rank(0), "got {} starts, the rank is {}", *count, c.rank(0));
  std::vector<int> axes;
  for (int axis = 0; axis < *count; ++axis) axes.push_back(axis);
  return axes;
}

void infer_slice(Infer& c) {
  std::vector<Dim> dims = c.dims(0);
  const auto axes = sliced_axes(c);
  if (!axes) {
    for (Dim& dim : dims) dim = c.found("slice", {0, dim.range().max});
    return c.result(c.element(0), std::move(dims));
  }
  const std::vector<Dim>* starts = c.elements(1);
  const std::vector<Dim>* ends = c.elements(2);
  const auto steps = c.has(4) ? c.constants(4) : std::vector<int64_t>(axes->size(), 1);
  for (const auto& [name, list] : {std::pair{"starts", starts}, std::pair{"ends", ends}}) {
    c.check(list == nullptr || list->size() == axes->size(), "got {} {} for {} axes",
            list == nullptr ? 0 : list->size(), name, axes->size());
  }
  const size_t step_count = steps ? steps->size() : axes->size();
  c.check(step_count == axes->size(), "got {} steps for {} axes", step_count, axes->size());
  for (size_t i = 0; i < axes->size(); ++i) {
    Dim& dim = dims[static_cast<size_t>((*axes)[i])];
    c.check(!steps || (*steps)[i] != 0, "step {} is 0, expected a non-zero value", i);
    std::optional<Dim> extent;
    if (starts != nullptr && ends != nullptr && steps) {
      extent = sliced_extent(dim, (*starts)[i], (*ends)[i], (*steps)[i]);
    }
    dim = extent ? *extent : c.found("slice", {0, dim.range().max});
  }
  c.result(c.element(0), std::move(dims));
  propagate_elements(c, {0});
}

struct SliceValues {
  std::span<const int64_t> starts;
  std::span<const int64_t> ends;
  std::span<const int64_t> steps;  // empty: all 1
};

TensorView sliced(TensorView view, std::span<const int> axes, const SliceValues& values) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i];
    const int64_t extent = view.dims[axis];
    const int64_t step = values.steps.empty() ? 1 : values.steps[i];
    const auto place = [&](int64_t value, int64_t low, int64_t high) {
      if (value <= -kEnd) return low;
      return std::clamp(value < 0 ? value + extent : value, low, std::max(low, high));
    };
    int64_t begin = 0;
    int64_t count = 0;
    if (step > 0) {
      begin = place(values.starts[i], 0, extent);
      const int64_t end = place(values.ends[i], 0, extent);
      count = end > begin ? (end - begin - 1) / step + 1 : 0;
    } else {
      begin = std::min(place(values.starts[i], 0, extent - 1), extent - 1);
      const int64_t end = place(values.ends[i], -1, extent - 1);
      count = begin > end ? (begin - end - 1) / -std::max(step, -kUnbounded) + 1 : 0;
    }
    view = narrow(view, axis, begin, count, count > 1 ? step : 1);
  }
  return view;
}

void eval_slice(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const auto given = [&](int i) { return c.has(i); };
  const std::vector<int64_t> starts = c.values(1);
  const std::vector<int64_t> ends = c.values(2);
  SmallVector<int> axes;
  if (given(3)) {
    axes = axes_of(c, 3, x.view().rank);
  } else {
    c.check(static_cast<int64_t>(starts.size()) <= x.view().rank, "got {} starts for rank {}",
            starts.size(), x.view().rank);
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int>(i));
  }
  const std::vector<int64_t> steps = given(4) ? c.values(4) : std::vector<int64_t>(axes.size(), 1);
  c.check(starts.size() == axes.size() && ends.size() == axes.size() &&
              steps.size() == axes.size() && static_cast<int>(axes.size()) <= x.view().rank,
          "got {} starts, {} ends and {} steps for {} axes of rank {}", starts.size(), ends.size(),
          steps.size(), axes.size(), x.view().rank);
  for (const int64_t step : steps)
    c.check(step != 0, "a step is {}, expected a non-zero value", step);
  const TensorView part = sliced(x.view(), axes, {starts, ends, steps});
  const UnpackedResult out(c.out(0, part.extents()));
  copy_elements(part, out.view(), c.pool);
  out.store();
}

template <class M>
void map_slice(M& m) {
  auto from = m.indices();
  const int count = m.length(1);
  if (count < 0) return m.stop();
  for (int k = 0; k < count; ++k) {
    const auto named = m.has(3) ? M::constant(m.value(3, k)) : std::optional<int64_t>(k);
    const auto step = m.has(4) ? M::constant(m.value(4, k)) : std::optional<int64_t>(1);
    if (!named || !step) return m.stop();
    const auto axis = static_cast<int>(*named < 0 ? *named + m.rank(0) : *named);
    const auto extent = m.extent(0, axis);
    const auto last = *step > 0 ? extent : extent - 1;
    const auto begin = M::min(M::max(0, wrapped(m, m.value(1, k), extent)), last);
    auto& place = from[static_cast<size_t>(axis)];
    const bool steps = !M::same(m.result_extent(axis), 1) && !M::same(m.result_extent(axis), 0);
    place = begin + place * (steps ? *step : 1);
  }
  m.read(0, from);
}

}  // namespace

static const Register slice{{
    .name = "slice",
    .doc = "Elements start, start + step, … before end along the given axes (default: the first "
           "ones).",
    .operands = {{"x"},
                 {"starts", kIndices},
                 {"ends", kIndices},
                 {"axes", kIndices, Arity::optional},
                 {"steps", kIndices, Arity::optional}},
    .on_host = {1, 2, 3, 4},
    .infer = infer_slice,
    .eval = eval_slice,
    .map = [](auto& m) { map_slice(m); },
    .view = affine_view,
}};

}  // namespace lathe
