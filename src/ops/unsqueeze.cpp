// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// `dims` with size 1 inserted at `axes`, which are axes of the result.
template <class D>
std::vector<D> inserted(std::span<const D> dims, std::span<const int> axes) {
  std::vector<D> out;
  size_t next = 0;
  for (size_t axis = 0; axis < dims.size() + axes.size(); ++axis) {
    const bool fresh = std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end();
    out.push_back(fresh ? D(1) : dims[next++]);
  }
  return out;
}

void infer_unsqueeze(Infer& c) {
  const std::optional<int64_t> count = known_length(c, 1);
  const auto rank = count ? std::optional(c.rank(0) + *count) : std::nullopt;
  c.check(rank.value_or(0) <= kMaxRank, "the result has rank {}, at most {} is supported",
          rank.value_or(0), kMaxRank);
  const auto axes = rank ? known_axes(c, 1, static_cast<int>(*rank)) : std::nullopt;
  if (axes) {
    c.result(c.element(0), inserted<Dim>(c.dims(0), *axes));
  } else {
    auto dims = found_dims(c, rank, "unsqueeze");
    c.result(dims ? Type::tensor(c.element(0), std::move(*dims)) : Type::unranked(c.element(0)));
  }
  if (c.elements(0) != nullptr) c.result_elements(*c.elements(0));
}

}  // namespace

static const Register unsqueeze{{
    .name = "unsqueeze",
    .doc = "Inserts axes of size 1 at `axes` of the result.",
    .operands = {{"x"}, {"axes", types(ElementType::i64)}},
    .on_host = {1},
    .infer = infer_unsqueeze,
    .eval =
        [](Evaluation& c) {
          const TensorView& x = c.in(0);
          const int rank = x.rank + static_cast<int>(c.in(1).count());
          c.check(rank <= kMaxRank, "the result has rank {}, at most {} is supported", rank,
                  kMaxRank);
          copy_flat(x, c.out(0, inserted<int64_t>(x.extents(), axes_of(c, 1, rank))), c.pool);
        },
    .map = [](auto& m) { map_reshaped(m); },
    .view = view_reshaped,
}};

}  // namespace lathe
