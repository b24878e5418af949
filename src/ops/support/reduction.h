// SPDX-License-Identifier: MIT
// What the reduce ops compute, in one place for every target:
//
//   static const Register reduce_l2{reduction_op({
//       .name = "reduce_l2",
//       .doc = "The square root of the sum of squares over the given axes.",
//       .combine = ExprOp::add,
//       .term = [](const Expr& x) { return x * x; },
//       .finish = [](const Expr& v, const Expr& /*n*/) { return sqrt(v); },
//       .real = true,
//   })};
#pragma once

#include "ir/expr.h"
#include "ir/op.h"

namespace lathe {

// finish(v, n), where v combines the terms of all n elements. Floats compute in f64: a sum of f32
// is exact except for its last rounding, in any order. Integers wrap around in 64 bits.
struct Reduction {
  std::string_view name;
  std::string_view doc;
  TypeSet types = kNumeric;
  ExprOp combine = ExprOp::add;  // add, mul, min or max
  Expr (*term)(const Expr& x) = [](const Expr& x) { return x; };
  Expr (*finish)(const Expr& v, const Expr& n) = [](const Expr& v, const Expr& /*n*/) { return v; };
  bool real = false;  // integers compute in f64, too

  // The type of terms.
  ExprType type(ElementType element) const;
  // The bits, in that type, of the value before the first term, which every term replaces or leaves
  // as it is.
  uint64_t init(ElementType element) const;
  Expr combined(const Expr& a, const Expr& b) const;
};

// The op of a reduction over the axes in its second operand.
Op reduction_op(const Reduction& reduction);
// The reduction of such an op; null for others.
const Reduction* find_reduction(const Op& op);

}  // namespace lathe
