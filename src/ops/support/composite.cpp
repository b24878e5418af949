// SPDX-License-Identifier: MIT
#include "ops/support/composite.h"

#include "ir/ops.h"

namespace lathe {

ElementType composite_type(ElementType type) {
  return is_floating(type) && info(type).bits < 32 ? ElementType::f32 : type;
}

Value* widen(Builder& b, Value* x) { return b.cast(x, composite_type(x->type().element)); }

void conclude(Expansion& e, Value* value) {
  const Type& promised = e.result_type(static_cast<int>(e.results().size()));
  e.result(value == nullptr ? nullptr : e.b.cast(value, promised.element));
}

std::vector<OperandSpec> float_operands(std::initializer_list<std::string_view> names) {
  std::vector<OperandSpec> list;
  for (const std::string_view name : names) list.push_back({name, kFloats});
  return list;
}

Value* slice_along(Builder& b, Value* x, int64_t axis, const Dim& begin, const Dim& end) {
  return b(ops::slice, {x, b.dims({begin}), b.dims({end}), b.integers({axis})});
}

Value* as_column(Builder& b, Value* vector, int trailing) {
  std::vector<Dim> dims(static_cast<size_t>(trailing) + 1, Dim(1));
  dims[0] = (*vector->type().dims)[0];
  return b.reshape(vector, dims);
}

Value* reduce(Builder& b, const Op& op, Value* x, const std::vector<int64_t>& axes) {
  return b(op, {x, b.integers(axes)}, {{"keep_dims", true}});
}

std::vector<int64_t> axis_range(int first, int last) {
  std::vector<int64_t> axes;
  for (int axis = first; axis < last; ++axis) axes.push_back(axis);
  return axes;
}

Normalized normalize(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon) {
  Value* mean = reduce(b, ops::reduce_mean, x, axes);
  Value* centred = b(ops::sub, {x, mean});
  const Normalized scaled = normalize_rms(b, centred, axes, epsilon);
  return {scaled.value, mean, scaled.inverse};
}

Normalized normalize_rms(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon) {
  Value* square = reduce(b, ops::reduce_mean, b(ops::mul, {x, x}), axes);
  Value* sum = b(ops::add, {square, b.scalar(x->type().element, epsilon)});
  Value* inverse = b(ops::reciprocal, {b(ops::sqrt, {sum})});
  return {b(ops::mul, {x, inverse}), nullptr, inverse};
}

Moments channel_moments(Builder& b, Value* x) {
  std::vector<int64_t> axes = axis_range(1, x->type().rank());
  axes[0] = 0;
  const auto mean_of = [&](Value* of) {
    return b(ops::reduce_mean, {of, b.integers(axes)}, {{"keep_dims", false}});
  };
  Value* mean = mean_of(x);
  Value* centred = b(ops::sub, {x, as_column(b, mean, x->type().rank() - 2)});
  return {mean, mean_of(b(ops::mul, {centred, centred}))};
}

Value* blend(Builder& b, Value* x, Value* y, double share) {
  const ElementType type = x->type().element;
  Value* first = b(ops::mul, {x, b.scalar(type, share)});
  return b(ops::add, {first, b(ops::mul, {y, b.scalar(type, 1 - share)})});
}

Value* quantise(Builder& b, Value* x, Value* zero_point) {
  Value* one = b.scalar(x->type().element, 1);
  return b(ops::quantize_linear, {x, one, b.reshape(zero_point, {})});
}

void require_broadcast(Infer& c, std::initializer_list<int> operands) {
  for (const int i : operands) {
    if (!c.has(i)) continue;
    const std::vector<Dim> all = c.broadcast(c.dims(0), c.dims(i));
    c.check(all.size() == c.dims(0).size(), "operand {} has rank {}, x has {}", i, c.rank(i),
            c.rank(0));
    for (int axis = 0; axis < c.rank(0); ++axis) {
      c.require_equal(all[static_cast<size_t>(axis)], c.dim(0, axis),
                      fmt::format("sizes of x and of x with operand {}", i));
    }
  }
}

void infer_skip_normalization(Infer& c) {
  require_broadcast(c, {1, 2, 3, 4});
  c.result(c.element(0), c.dims(0));
  for (int i = 0; i < 2; ++i) {
    c.result(composite_type(c.element(0)), reduced_from(c, 0, c.rank(0) - 1));
  }
  c.result(c.element(0), c.dims(0));
}

void require_channels(Infer& c, std::initializer_list<int> operands) {
  c.check(c.rank(0) >= 2, "x has rank {}, expected at least 2", c.rank(0));
  for (const int i : operands) {
    c.check(c.rank(i) == 1, "operand {} has rank {}, expected 1", i, c.rank(i));
    c.require_equal(c.dim(i, 0), c.dim(0, 1), fmt::format("operand {} and the channels of x", i));
  }
}

std::vector<Dim> reduced_from(const Infer& c, int i, int axis) {
  std::vector<Dim> dims = c.dims(i);
  for (size_t at = static_cast<size_t>(axis); at < dims.size(); ++at) dims[at] = 1;
  return dims;
}

}  // namespace lathe
