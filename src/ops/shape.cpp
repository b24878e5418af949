// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

// Negative attributes count from the end; values are clamped to the rank.
int clamped(int64_t value, int rank) {
  return static_cast<int>(std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank));
}

template <class Context>
std::pair<int, int> interval(const Context& c, int rank) {
  const int begin = clamped(c.integer("start"), rank);
  const int end = c.has_attribute("end") ? clamped(c.integer("end"), rank) : rank;
  return {begin, std::max(begin, end)};
}

void infer_shape(Infer& c) {
  if (!c.type(0).is_ranked()) {
    c.result(ElementType::i64, {c.found("rank", {0, kMaxRank})});
    return;
  }
  const auto [begin, end] = interval(c, c.rank(0));
  c.result(ElementType::i64, {end - begin});
  c.result_elements({c.dims(0).begin() + begin, c.dims(0).begin() + end});
}

}  // namespace

static const Register shape{{
    .name = "shape",
    .doc = "The sizes of axes start to end (default: all) as an i64 vector.",
    .operands = {{"x"}},
    .attributes = {{"start", 0}, {"end", AttributeKind::integer, false}},
    .traits = kTakesUnranked,
    .infer = infer_shape,
    .eval =
        [](Evaluation& c) {
          const TensorView& x = c.in(0);
          const auto [begin, end] = interval(c, x.rank);
          const TensorView& out = c.out(0, std::array{int64_t{end - begin}});
          for (int axis = begin; axis < end; ++axis) {
            out.as<int64_t>()[(axis - begin) * out.strides[0]] = x.dims[axis];
          }
        },
}};

}  // namespace lathe
