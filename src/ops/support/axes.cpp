// SPDX-License-Identifier: MIT
#include "ops/support/axes.h"

#include <algorithm>
#include <array>

#include "ops/support/indices.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// Context is Infer or Evaluation: both have check().
template <class Axes, class Context>
Axes normalised(const Context& c, std::span<const int64_t> values, int rank) {
  Axes axes;
  for (const int64_t value : values) {
    c.check(value >= -rank && value < rank, "axis {} is out of range for rank {}", value, rank);
    const int axis = static_cast<int>(value < 0 ? value + rank : value);
    c.check(std::find(axes.begin(), axes.end(), axis) == axes.end(), "axis {} is a duplicate",
            value);
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

std::optional<std::vector<int>> known_axes(const Infer& c, int i, int rank) {
  const auto values = c.constants(i);
  if (!values) return std::nullopt;
  return normalised<std::vector<int>>(c, *values, rank);
}

std::optional<int64_t> known_length(const Infer& c, int i) {
  if (!c.type(i).is_ranked()) return std::nullopt;
  if (c.rank(i) == 0) return 1;  // exporters also write a single axis as a scalar
  c.check(c.rank(i) == 1, "operand {} has rank {}, expected 1", i, c.rank(i));
  return c.dim(i, 0).constant();
}

SmallVector<int> axes_of(const Evaluation& c, int i, int rank) {
  // More axes than kMaxRank cannot be distinct.
  std::array<int64_t, kMaxRank + 1> values;
  const auto count = std::min(static_cast<size_t>(c.in(i).count()), values.size());
  const std::span<int64_t> some = std::span(values).first(count);
  load_values(c, i, 0, some);
  return normalised<SmallVector<int>>(c, some, rank);
}

std::vector<int> named_axes(const Integers& named, int rank) {
  std::vector<int> axes;
  for (const int64_t axis : named) {
    axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
  }
  for (int axis = 0; named.empty() && axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

std::optional<std::vector<Dim>> found_dims(Infer& c, std::optional<int64_t> rank,
                                           std::string_view hint) {
  if (!rank) return std::nullopt;
  c.check(*rank >= 0 && *rank <= kMaxRank, "the result has rank {}, at most {} is supported", *rank,
          kMaxRank);
  std::vector<Dim> dims;
  for (int64_t axis = 0; axis < *rank; ++axis) dims.push_back(c.found(hint));
  return dims;
}

int64_t count_between(std::span<const int64_t> dims, int begin, int end) {
  int64_t count = 1;
  for (int axis = begin; axis < end; ++axis) count *= dims[static_cast<size_t>(axis)];
  return count;
}

bool view_reshaped(ViewRequest& v) {
  const auto view = reshaped(v.operand, v.result.extents());
  if (view) v.result = *view;
  return view.has_value();
}

}  // namespace lathe
