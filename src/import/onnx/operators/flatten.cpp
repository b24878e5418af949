// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// The matrix shape: the product of the sizes before the axis, and that of the others.
Value* matrix_shape(NodeImport& c, Value* x, int64_t axis) {
  const auto product = [&](Attributes range) {
    return c.b("reduce_prod", {c.b("shape", {x}, std::move(range))}, {{"keep_dims", true}});
  };
  Value* rows = product({{"start", int64_t{0}}, {"end", axis}});
  Value* columns = product({{"start", axis}});
  return c.b("concat", {rows, columns}, {{"axis", int64_t{0}}});
}

Value* flatten(NodeImport& c, Value* x, int64_t axis) {
  return c.b("reshape", {x, matrix_shape(c, x, axis)}, {{"allow_zero", true}});
}

}  // namespace

void import_flatten(NodeImport& c) {
  const int64_t axis = c.integer("axis", 1);
  if (c.in(0)->type().is_ranked()) {
    c.check(axis >= -c.rank(0) && axis <= c.rank(0), "axis {} is out of range for rank {}", axis,
            c.rank(0));
  }
  c.out(0, flatten(c, c.in(0), axis));
}

Value* normalize_from(NodeImport& c, std::string_view op, Value* x, int64_t axis) {
  c.supported(x->type().is_ranked(), "{} of {}, its rank must be known here", op,
              x->type().to_string());
  const int rank = x->type().rank();
  c.check(axis >= -rank && axis <= rank, "axis {} is out of range for rank {}", axis, rank);
  if (axis == rank - 1 || axis == -1) return c.b(op, {x}, {{"axis", int64_t{-1}}});
  Value* y = c.b(op, {flatten(c, x, axis)}, {{"axis", int64_t{-1}}});
  return c.b("reshape", {y, c.b("shape", {x})}, {{"allow_zero", true}});
}

void import_flattened(NodeImport& c) {
  c.out(0, normalize_from(c, c.op(), c.in(0), c.integer("axis", 1)));
}

}  // namespace lathe::onnx
