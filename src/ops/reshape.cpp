// SPDX-License-Identifier: MIT
// A shape value of -1 is the remaining size; 0 is the operand's own size, or 0 with allow_zero. A
// symbolic value is a size, in empty tensors also one that is 0 at run time.
#include "ops/index_map.h"
#include "ops/support/axes.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// `value`, or `kept` where it is 0.
Dim size_or_kept(const Dim& value, const Dim& kept) {
  if (value == kept) return value;
  return value + (Dim(1) - Dim::min(1, value)) * kept;
}

void infer_known(Infer& c, const std::vector<Dim>& requested) {
  const bool ranked = c.type(0).is_ranked();
  const bool empty = ranked && element_count(c.dims(0)) == Dim(0);
  std::vector<Dim> dims;
  int open = -1;  // axis of -1
  Dim known = 1;
  for (size_t axis = 0; axis < requested.size(); ++axis) {
    const Dim& value = requested[axis];
    c.check(!value.is_constant() || *value.constant() >= -1, "shape value {} is negative",
            value.to_string());
    dims.push_back(value);
    if (value == Dim(-1)) {
      c.check(open < 0, "axes {} and {} are both -1", open, axis);
      open = static_cast<int>(axis);
      continue;
    }
    if (value == Dim(0) && !c.boolean("allow_zero")) {
      c.check(!ranked || static_cast<int>(axis) < c.rank(0),
              "shape value 0 at axis {} refers to an axis that the operand does not have", axis);
      dims.back() = ranked ? c.dim(0, static_cast<int>(axis)) : c.found("reshape");
    }
    // Elsewhere a size that is kept would change the number of elements, unless several are 0.
    if (empty && !value.is_constant() && !c.boolean("allow_zero") &&
        static_cast<int>(axis) < c.rank(0)) {
      dims.back() = size_or_kept(value, c.dim(0, static_cast<int>(axis)));
    }
    known = known * dims.back();
  }
  if (ranked) {
    const Dim total = element_count(c.dims(0));
    if (open >= 0) {
      c.check(!(known == Dim(0)), "axis {} is -1 with a size of 0 in [{}]", open,
              fmt::join(*c.constants(1), ", "));
      Dim& rest = dims[static_cast<size_t>(open)];
      rest = Dim::floor_div(total, known);
      known = known * rest;
    }
    c.require_equal(total, known, "number of elements");
  } else if (open >= 0) {
    dims[static_cast<size_t>(open)] = c.found("reshape");
  }
  c.result(c.element(0), std::move(dims));
}

void infer_reshape(Infer& c) {
  const std::vector<Dim>* requested = c.elements(1);
  const std::optional<int64_t> rank = known_length(c, 1);
  if (requested != nullptr) {
    infer_known(c, *requested);
  } else if (rank == 1 && c.type(0).is_ranked()) {
    c.result(c.element(0), {element_count(c.dims(0))});  // the only possible shape
  } else if (auto dims = found_dims(c, rank, "reshape")) {
    c.result(c.element(0), std::move(*dims));
  } else {
    c.result(Type::unranked(c.element(0)));
  }
  if (c.elements(0) != nullptr) c.result_elements(*c.elements(0));
}

Dims target_dims(const Evaluation& c) {
  Dims dims = c.values(1);
  const TensorView& x = c.in(0);
  const bool allow_zero = c.boolean("allow_zero");
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == -1) {
      c.check(open == nullptr, "more than one shape value is -1 in [{}]", fmt::join(dims, ", "));
      open = &dims[axis];
      continue;
    }
    if (dims[axis] == 0 && !allow_zero) {
      c.check(static_cast<int>(axis) < x.rank,
              "shape value 0 at axis {} refers to an axis that the operand does not have", axis);
      dims[axis] = x.dims[axis];
    }
    c.check(dims[axis] >= 0, "shape value {} is negative", dims[axis]);
    c.check(!__builtin_mul_overflow(known, dims[axis], &known), "the shape [{}] is too large",
            fmt::join(dims, ", "));
  }
  if (open != nullptr) {
    c.check(known != 0, "a shape value is -1 with a size of 0 in [{}]", fmt::join(dims, ", "));
    *open = x.count() / known;
  }
  return dims;
}

void eval_reshape(Evaluation& c) {
  // Inferred dims are correct even if the values have -1 next to 0.
  const TensorView& promised = c.out(0);
  const bool known = c.instruction().found().empty() && c.instruction().result()->type().dims;
  const bool is_known = known && promised.data != nullptr;
  const Dims given = is_known ? Dims() : target_dims(c);
  const std::span<const int64_t> dims = is_known ? promised.extents() : std::span(given);
  if (element_count(dims) != c.in(0).count()) {
    c.fail("{} cannot be reshaped to [{}]", to_string(c.in(0).type, c.in(0).extents()),
           fmt::join(dims, ", "));
  }
  copy_flat(c.in(0), c.out(0, dims), c.pool);
}

}  // namespace

static const Register reshape{{
    .name = "reshape",
    .doc = "The elements of x in row-major order with shape `shape`.",
    .operands = {{"x"}, {"shape", kIndices}},
    .attributes = {{"allow_zero", Attribute(false)}},
    .on_host = {1},
    .traits = kTakesUnranked,
    .infer = infer_reshape,
    .eval = eval_reshape,
    .map = [](auto& m) { map_reshaped(m); },
    .view = view_reshaped,
}};

}  // namespace lathe
