// SPDX-License-Identifier: MIT
// pads: number of elements before each axis, then after each; negative pads crop.
#include <algorithm>
#include <array>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

constexpr int64_t kLargestPad = int64_t{1} << 56;  // sums of sizes and pads do not overflow
constexpr std::array<std::string_view, 4> kModes{"constant", "reflect", "edge", "wrap"};

void infer_pad(Infer& c) {
  const std::string& mode = c.text("mode");
  c.check(std::find(kModes.begin(), kModes.end(), mode) != kModes.end(), "unknown mode '{}'{}",
          escape(mode), did_you_mean(mode, kModes));
  std::vector<Dim> dims = c.dims(0);
  std::optional<std::vector<int>> axes;
  if (c.has(3)) {
    axes = known_axes(c, 3, c.rank(0));
    c.require_equal(c.dim(1, 0), c.dim(3, 0) * 2, "number of pads");
  } else {
    c.require_equal(c.dim(1, 0), 2 * c.rank(0), "number of pads");
    axes.emplace();
    for (int axis = 0; axis < c.rank(0); ++axis) axes->push_back(axis);
  }
  const std::vector<Dim>* pads = c.elements(1);
  if (!axes || pads == nullptr) {
    for (Dim& dim : dims) dim = c.found("pad");
    return c.result(c.element(0), std::move(dims));
  }
  c.check(pads->size() == 2 * axes->size(), "got {} pads for {} axes", pads->size(), axes->size());
  for (size_t i = 0; i < axes->size(); ++i) {
    Dim& dim = dims[static_cast<size_t>((*axes)[i])];
    dim = dim + (*pads)[i] + (*pads)[i + axes->size()];
    c.require_less_equal(0, dim, fmt::format("size of axis {}", (*axes)[i]));
  }
  c.result(c.element(0), std::move(dims));
}

// Source of the element at `place`, which may be below 0 or beyond the axis; -1: none.
int64_t source_of(const std::string& mode, int64_t place, int64_t extent) {
  if (place >= 0 && place < extent) return place;
  if (mode == "constant" || extent == 0) return -1;
  if (mode == "edge") return place < 0 ? 0 : extent - 1;
  const int64_t period = mode == "wrap" ? extent : std::max<int64_t>(2 * (extent - 1), 1);
  const int64_t phase = ((place % period) + period) % period;
  return phase < extent ? phase : period - phase;
}

void eval_pad(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const auto rank = static_cast<size_t>(x.view().rank);
  const std::string& mode = c.text("mode");
  const std::vector<int64_t> pads = c.values(1);
  SmallVector<int> axes;
  if (c.has(3)) {
    axes = axes_of(c, 3, x.view().rank);
  } else {
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int>(axis));
  }
  c.check(pads.size() == 2 * axes.size(), "got {} pads for {} axes", pads.size(), axes.size());
  Dims before(rank, 0);
  Dims dims(x.view().extents().begin(), x.view().extents().end());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    before[axis] = pads[i];
    for (const int64_t count : {pads[i], pads[i + axes.size()]}) {
      c.check(count >= -kLargestPad && count <= kLargestPad, "axis {} is padded with {} elements",
              axis, count);
      dims[axis] += count;
    }
    c.check(dims[axis] >= 0, "axis {} would have size {}", axis, dims[axis]);
    c.check(dims[axis] == 0 || x.view().dims[axis] > 0 || mode == "constant",
            "axis {} is empty and cannot be padded in mode {}", axis, mode);
  }
  const Tensor zero(x.view().type, {});
  const bool given = c.has(2);
  const UnpackedOperand value(given ? c.in(2) : zero.view());
  c.check(value.view().count() == 1, "{} values, expected one", value.view().count());
  const UnpackedResult out(c.out(0, dims));
  with_raw_type(x.view().type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for_each_index(dims, [&](std::span<const int64_t> index) {
      int64_t from = 0;
      bool inside = true;
      for (size_t axis = 0; axis < rank && inside; ++axis) {
        const int64_t at = source_of(mode, index[axis] - before[axis], x.view().dims[axis]);
        inside = at >= 0;
        from += at * x.view().strides[axis];
      }
      out.view().as<T>()[offset_of(out.view(), index)] =
          inside ? x.view().as<T>()[from] : *value.view().as<T>();
    });
  });
  out.store();
}

template <class M>
void map_pad(M& m) {
  const std::string& mode = m.text("mode");
  const int count = m.has(3) ? m.length(3) : m.rank(0);
  if (count < 0) return m.stop();
  auto from = m.indices();
  std::vector<typename M::Index> inside;
  for (int k = 0; k < count; ++k) {
    const auto named = m.has(3) ? M::constant(m.value(3, k)) : std::optional<int64_t>(k);
    if (!named) return m.stop();
    const auto axis = static_cast<int>(*named < 0 ? *named + m.rank(0) : *named);
    const auto extent = m.extent(0, axis);
    auto& place = from[static_cast<size_t>(axis)];
    place = place - m.value(1, k);
    if (mode == "constant") {
      inside.push_back(place);
      inside.push_back(extent - 1 - place);
    } else if (mode == "edge") {
      place = M::min(M::max(place, 0), extent - 1);
    } else if (mode == "wrap") {
      place = M::mod(place, extent);
    } else {
      const auto period = M::max((extent - 1) * 2, 1);
      place = M::min(M::mod(place, period), period - M::mod(place, period));
    }
  }
  m.read(0, from, inside);
  if (mode != "constant") return;
  if (m.has(2)) {
    m.read(2, m.coordinates(2));
  } else {
    m.read_zero();
  }
}

}  // namespace

static const Register pad{{
    .name = "pad",
    .doc = "x with elements added before and after its axes: a constant, a reflection, the edge "
           "or x repeated.",
    .operands = {{"x", kAnyType, Arity::one, 'T'},
                 {"pads", types(ElementType::i64)},
                 {"value", kAnyType, Arity::optional, 'T'},
                 {"axes", kIndices, Arity::optional}},
    .attributes = {{"mode", "constant"}},
    .on_host = {1, 3},
    .infer = infer_pad,
    .eval = eval_pad,
    .map = [](auto& m) { map_pad(m); },
}};

}  // namespace lathe
