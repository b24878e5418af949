// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/extents.h"
#include "ops/support/indices.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

std::vector<Dim> gathered(std::span<const Dim> x, std::span<const Dim> indices, int axis) {
  std::vector<Dim> dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  return dims;
}

Extents gathered_extents(std::span<const int64_t> x, std::span<const int64_t> indices, int axis) {
  Extents all;
  const auto at = static_cast<size_t>(axis);
  all.add(x.first(at));
  all.add(indices);
  all.add(x.subspan(at + 1));
  return all;
}

// Reads indices in chunks, without heap allocation.
class IndexParts {
 public:
  IndexParts(const Evaluation& c, int64_t extent)
      : c_(c), extent_(extent), count_(c.in(1).count()) {}
  // Calls f with each index, in order.
  template <class F>
  void each(F&& f) const {
    std::array<int64_t, 256> part;
    for (int64_t at = 0; at < count_; at += std::ssize(part)) {
      const auto own = std::span(part).first(
          static_cast<size_t>(std::min<int64_t>(std::ssize(part), count_ - at)));
      load_indices(c_, 1, extent_, at, own);
      for (const int64_t index : own) f(index);
    }
  }

 private:
  const Evaluation& c_;
  int64_t extent_;
  int64_t count_;
};

void infer_gather(Infer& c) {
  const int axis = c.axis("axis", c.rank(0));
  c.result(c.element(0), gathered(c.dims(0), c.dims(1), axis));
  propagate_elements(c, {0});
}

// Copies rows of dense tensors: the case of embeddings.
void gather_rows(const TensorView& x, int axis, const IndexParts& indices, const TensorView& out) {
  const int64_t outer = count_between(x.extents(), 0, axis);
  const auto row =
      static_cast<size_t>(bytes_for(x.type, count_between(x.extents(), axis + 1, x.rank)));
  const auto* from = x.as<const std::byte>();
  auto* to = out.as<std::byte>();
  for (int64_t block = 0; block < outer; ++block) {
    indices.each([&](int64_t index) {
      std::memcpy(to, from + static_cast<size_t>(index) * row, row);
      to += row;
    });
    from += static_cast<size_t>(x.dims[axis]) * row;
  }
}

void eval_gather(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const int axis = c.axis("axis", x.view().rank);
  const TensorView& places = c.in(1);
  const IndexParts indices(c, x.view().dims[axis]);
  const UnpackedResult out(
      c.out(0, gathered_extents(x.view().extents(), places.extents(), axis).span()));
  if (out.view().count() == 0) return indices.each([](int64_t) {});  // still checks the indices
  if (x.view().type != ElementType::string && x.view().is_dense() && out.view().is_dense()) {
    gather_rows(x.view(), axis, indices, out.view());
    return out.store();
  }
  std::array<int64_t, kMaxRank> place{};  // position of the next index among all
  const auto rank = static_cast<size_t>(places.rank);
  indices.each([&](int64_t index) {
    TensorView to = out.view();
    for (size_t i = 0; i < rank; ++i) to = select_axis(to, axis, place[i]);
    copy_elements(select_axis(x.view(), axis, index), to);
    for (size_t i = rank; i-- > 0 && ++place[i] == places.dims[i];) place[i] = 0;
  });
  out.store();
}

template <class M>
void map_gather(M& m) {
  const int axis = m.axis("axis", m.rank(0));
  auto places = m.coordinates(1);
  for (int i = 0; i < m.rank(1); ++i) places[static_cast<size_t>(i)] = m.index(axis + i);
  auto from = m.coordinates(0);
  for (int i = 0; i < m.rank(0); ++i) {
    from[static_cast<size_t>(i)] = i < axis    ? m.index(i)
                                   : i == axis ? wrapped(m, m.element(1, places), m.extent(0, axis))
                                               : m.index(i + m.rank(1) - 1);
  }
  m.read(0, from);
}

}  // namespace

static const Register gather{{
    .name = "gather",
    .doc = "The slices of x at `indices` along an axis; negative indices count from the end.",
    .operands = {{"x"}, {"indices", kIndices}},
    .attributes = {{"axis", 0}},
    .infer = infer_gather,
    .eval = eval_gather,
    .map = [](auto& m) { map_gather(m); },
}};

}  // namespace lathe
