// SPDX-License-Identifier: MIT
#include "ops/composite.h"
#include "ops/window.h"

namespace lathe {
namespace {

constexpr TypeSet kBytes = types(ElementType::i8, ElementType::u8);

void infer_qlinear_conv(Infer& c) {
  c.check(c.rank(0) >= 3 && c.rank(3) == c.rank(0), "x has rank {}, w has rank {}", c.rank(0),
          c.rank(3));
  c.require_equal(c.dim(0, 1), c.dim(3, 1) * c.integer("group"), "channels of x and w");
  std::vector<Dim> dims = {c.dim(0, 0), c.dim(3, 0)};
  for (const Dim& dim :
       window_dims(c, std::span(c.dims(0)).subspan(2), std::span(c.dims(3)).subspan(2))) {
    dims.push_back(dim);
  }
  c.result(c.element(7), std::move(dims));
}

void expand_qlinear_conv(Expansion& e) {
  Builder& b = e.b;
  const int trailing = e.rank(0) - 2;
  const auto wide = [&](int i) {
    Value* x = b.cast(e.operand(i), ElementType::f32);
    return x->type().rank() == 1 ? as_column(b, x, trailing) : x;
  };
  Value* y =
      b("conv_integer", {e.operand(0), e.operand(3), b.reshape(e.operand(2), {}), e.operand(5)},
        e.instruction().attributes());
  if (e.has(8)) y = b("add", {y, as_column(b, e.operand(8), trailing)});
  Value* scale = b("div", {b("mul", {wide(1), wide(4)}), wide(6)});
  y = b("mul", {b.cast(y, ElementType::f32), scale});
  Value* one = b.scalar(ElementType::f32, 1);
  conclude(e, b("quantize_linear", {y, one, b.reshape(e.operand(7), {})}));
}

}  // namespace

static const Register qlinear_conv{{
    .name = "qlinear_conv",
    .doc = "Convolution of quantised operands, quantised: an exact sum, one product in f32.",
    .operands = {{"x", kBytes},
                 {"x_scale", kFloats},
                 {"x_zero_point", kBytes},
                 {"w", kBytes},
                 {"w_scale", kFloats},
                 {"w_zero_point", kBytes},
                 {"y_scale", kFloats},
                 {"y_zero_point", kBytes},
                 {"bias", types(ElementType::i32), Arity::optional}},
    .attributes = window_attributes({{"group", 1}}),
    .infer = infer_qlinear_conv,
    .expand = expand_qlinear_conv,
}};

}  // namespace lathe
