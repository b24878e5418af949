// SPDX-License-Identifier: MIT
#include <cstring>

#include "ops/axes.h"
#include "ops/element_flow.h"
#include "ops/indices.h"
#include "ops/staging.h"
#include "ops/views.h"

namespace lathe {
namespace {

template <class D>
std::vector<D> gathered(std::span<const D> x, std::span<const D> indices, int axis) {
  std::vector<D> dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  return dims;
}

void infer_gather(Infer& c) {
  const int axis = c.axis("axis", c.rank(0));
  c.result(c.element(0), gathered<Dim>(c.dims(0), c.dims(1), axis));
  flow_elements(c, {0});
}

// Rows of dense tensors: what embeddings are.
void gather_rows(const TensorView& x, int axis, const std::vector<int64_t>& indices,
                 const TensorView& out) {
  const int64_t outer = count_between(x.extents(), 0, axis);
  const auto row =
      static_cast<size_t>(bytes_for(x.type, count_between(x.extents(), axis + 1, x.rank)));
  const auto* from = x.as<const std::byte>();
  auto* to = out.as<std::byte>();
  for (int64_t block = 0; block < outer; ++block) {
    for (const int64_t index : indices) {
      std::memcpy(to, from + static_cast<size_t>(index) * row, row);
      to += row;
    }
    from += static_cast<size_t>(x.dims[axis]) * row;
  }
}

void eval_gather(Evaluation& c) {
  const WholeOperand x(c.in(0));
  const int axis = c.axis("axis", x.view().rank);
  const TensorView& places = c.in(1);
  const std::vector<int64_t> indices = indices_of(c, 1, x.view().dims[axis]);
  const WholeResult out(c.out(0, gathered<int64_t>(x.view().extents(), places.extents(), axis)));
  if (out.view().count() == 0) return;
  if (x.view().type != ElementType::string && x.view().is_dense() && out.view().is_dense()) {
    gather_rows(x.view(), axis, indices, out.view());
    return out.store();
  }
  size_t next = 0;
  for_each_index(places.extents(), [&](std::span<const int64_t> index) {
    TensorView place = out.view();
    for (const int64_t at : index) place = select_axis(place, axis, at);
    copy_elements(select_axis(x.view(), axis, indices[next++]), place);
  });
  out.store();
}

}  // namespace

static const Register gather{{
    .name = "gather",
    .doc = "The slices of x at `indices` along an axis; negative indices count from the end.",
    .operands = {{"x"}, {"indices", kIndices}},
    .attributes = {{"axis", 0}},
    .infer = infer_gather,
    .eval = eval_gather,
}};

}  // namespace lathe
