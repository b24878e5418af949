// SPDX-License-Identifier: MIT
// pads: number of elements before each axis, then after each; negative pads crop.
#include <algorithm>
#include <array>

#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"
#include "tensor/copy.h"

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

// The result without what surrounds the first `axes` axes of `part`.
TensorView middle(TensorView out, const Dims& first, const TensorView& part, size_t axes) {
  for (size_t axis = 0; axis < axes; ++axis) {
    out = narrow(out, static_cast<int>(axis), first[axis], part.dims[axis]);
  }
  return out;
}

// Fills what surrounds `part`.
void pad_constant(const TensorView& out, const Dims& first, const TensorView& part,
                  const TensorView& value) {
  for (size_t axis = 0; axis < first.size(); ++axis) {
    const TensorView place = middle(out, first, part, axis);
    const int64_t end = first[axis] + part.dims[axis];
    fill_elements(value, narrow(place, static_cast<int>(axis), 0, first[axis]));
    fill_elements(value, narrow(place, static_cast<int>(axis), end, place.dims[axis] - end));
  }
}

// Repeats `part`, which is in place, around itself: along the last axis within the others' middle,
// then along the axis before it, and so on.
void repeat_around(const std::string& mode, const TensorView& out, const Dims& first,
                   const TensorView& part) {
  for (size_t axis = first.size(); axis-- > 0;) {
    const TensorView place = middle(out, first, part, axis);
    const int64_t extent = part.dims[axis];
    for (int64_t i = 0; i < place.dims[axis]; ++i) {
      if (i == first[axis]) i += extent;
      if (i >= place.dims[axis]) break;
      const int64_t from = first[axis] + source_of(mode, i - first[axis], extent);
      copy_elements(select_axis(place, static_cast<int>(axis), from),
                    select_axis(place, static_cast<int>(axis), i));
    }
  }
}

// Copies element by element: padding may repeat what negative pads crop.
void pad_each(const std::string& mode, const TensorView& x, const Dims& before,
              const TensorView& out) {
  with_raw_type(x.type, [&]<class T>(T*) {
    for_each_index(out.extents(), [&](std::span<const int64_t> index) {
      int64_t from = 0;
      for (size_t axis = 0; axis < before.size(); ++axis) {
        from += source_of(mode, index[axis] - before[axis], x.dims[axis]) * x.strides[axis];
      }
      out.as<T>()[offset_of(out, index)] = x.as<T>()[from];
    });
  });
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
  Dims dims = dims_of(x.view());
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
  // The part of x that stays, at its place in the result.
  TensorView part = x.view();
  Dims first(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t begin = std::clamp<int64_t>(-before[axis], 0, part.dims[axis]);
    const int64_t end = std::clamp<int64_t>(dims[axis] - before[axis], begin, part.dims[axis]);
    first[axis] = std::clamp<int64_t>(before[axis], 0, dims[axis]);
    part = narrow(part, static_cast<int>(axis), begin, end - begin);
  }
  const bool crops = std::ranges::any_of(pads, [](int64_t count) { return count < 0; });
  if (mode == "constant") {
    pad_constant(out.view(), first, part, value.view());
  } else if (crops) {
    pad_each(mode, x.view(), before, out.view());
    return out.store();
  }
  copy_elements(part, middle(out.view(), first, part, rank), c.pool);
  if (mode != "constant") repeat_around(mode, out.view(), first, part);
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
