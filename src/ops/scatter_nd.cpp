// SPDX-License-Identifier: MIT
// indices [places…, k] hold coordinates of the first k axes of x; updates are [places…, rest of x].
#include "ops/support/indices.h"
#include "ops/support/scatter.h"
#include "ops/support/views.h"
#include "ops/token_step.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

void infer_scatter_nd(Infer& c) {
  c.check(c.rank(1) >= 1, "indices have rank {}, expected at least 1", c.rank(1));
  const int places = c.rank(1) - 1;
  if (const std::optional<int64_t> depth = c.dims(1).back().constant()) {
    c.check(*depth <= c.rank(0), "indices have {} coordinates, x has rank {}", *depth, c.rank(0));
    const int kept = c.rank(0) - static_cast<int>(*depth);
    c.check(c.rank(2) == places + kept, "updates have rank {}, expected {}", c.rank(2),
            places + kept);
    for (int axis = 0; axis < kept; ++axis) {
      c.require_equal(c.dim(2, places + axis), c.dim(0, static_cast<int>(*depth) + axis),
                      fmt::format("updates' axis {}", places + axis));
    }
  }
  for (int axis = 0; axis < std::min(places, c.rank(2)); ++axis) {
    c.require_equal(c.dim(1, axis), c.dim(2, axis),
                    fmt::format("axis {} of indices and updates", axis));
  }
  infer_scatter(c);
}

// The view without its first axes.
TensorView rest_of(const TensorView& view, int axes) {
  TensorView rest = view;
  rest.rank -= axes;
  for (int i = 0; i < rest.rank; ++i) {
    rest.dims[i] = view.dims[i + axes];
    rest.strides[i] = view.strides[i + axes];
  }
  return rest;
}

void eval_scatter_nd(Evaluation& c) {
  const ScatterReduction reduction = scatter_reduction(c.text("reduction"));
  const ElementType type = scatter_type(c.in(0).type, reduction);
  const ConvertedOperand x(c.in(0), type);
  const ConvertedOperand updates(c.in(2), type);
  const TensorView& places = c.in(1);
  const int64_t depth = places.dims[places.rank - 1];
  c.check(depth <= x.view().rank && updates.view().rank == places.rank - 1 + x.view().rank - depth,
          "{} coordinates and updates of rank {} do not match x of rank {}", depth,
          updates.view().rank, x.view().rank);
  const std::vector<int64_t> indices = c.values(1);
  const ConvertedResult out(c.out(0, x.view().extents()), type);
  copy_elements(x.view(), out.view(), c.pool);
  const TensorView& target = out.view();
  TensorView from = rest_of(updates.view(), places.rank - 1);
  TensorView to = rest_of(target, static_cast<int>(depth));
  c.check(std::ranges::equal(from.extents(), to.extents()),
          "an update has shape [{}], expected [{}]", fmt::join(from.extents(), ", "),
          fmt::join(to.extents(), ", "));
  const auto* index = indices.data();
  const auto next_offset = [&] {
    int64_t offset = 0;
    for (size_t k = 0; k < static_cast<size_t>(depth); ++k) {
      offset += checked_index(c, *index++, target.dims[k]) * target.strides[k];
    }
    return offset;
  };
  if (reduction == ScatterReduction::none && to.rank == 0 && updates.view().is_dense()) {
    with_raw_type(type, [&]<class T>(T*) {
      for (int64_t i = 0; i < updates.view().count(); ++i) {
        target.as<T>()[next_offset()] = updates.view().as<const T>()[i];
      }
    });
    return out.store();
  }
  const int64_t bytes = element_bytes(type);
  for_each_index(places.extents().first(static_cast<size_t>(places.rank - 1)),
                 [&](std::span<const int64_t> place) {
                   from.data =
                       updates.view().as<std::byte>() + offset_of(updates.view(), place) * bytes;
                   to.data = target.as<std::byte>() + next_offset() * bytes;
                   scatter_into(reduction, from, to);
                 });
  out.store();
}

// The token axis of data and updates follows the axes that indices address.
TokenAxis scatter_nd_tokens(const TokenStep& s) {
  const auto depth = s.dims(1).back().constant();
  if (s.axis(1) || !s.axis(0) || !s.axis(2) || !depth)
    return not_token_wise("indices have a token axis, or data or updates have none");
  const int64_t rest = *s.axis(0) - *depth;
  if (rest < 0 || *s.axis(2) != s.rank(1) - 1 + rest)
    return not_token_wise("it writes along the token axis");
  return {s.axis(0)};
}

}  // namespace

static const Register scatter_nd{{
    .name = "scatter_nd",
    .doc = "x with the slices `updates` written at the coordinates in the last axis of `indices`.",
    .operands = {{"x", kAnyType, Arity::one, 'T'},
                 {"indices", types(ElementType::i64)},
                 {"updates", kAnyType, Arity::one, 'T'}},
    .attributes = {{"reduction", "none"}},
    .infer = infer_scatter_nd,
    .eval = eval_scatter_nd,
    .tokens = scatter_nd_tokens,
}};

}  // namespace lathe
