// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

void infer_bit_cast(Infer& c) {
  const ElementType to = c.element_type("to");
  c.check(info(to).bits == info(c.element(0)).bits && to != ElementType::string,
          "{} has {} bits, {} has {}: expected equal sizes", to_string(c.element(0)),
          info(c.element(0)).bits, to_string(to), info(to).bits);
  c.result(to, c.dims(0));
}

TensorView with_type(TensorView view, ElementType type) {
  view.type = type;
  return view;
}

}  // namespace

static const Register bit_cast{{
    .name = "bit_cast",
    .doc = "The bits of x as elements of another type of the same size.",
    .operands = {{"x", kAnyType & ~kString}},
    .attributes = {{"to", AttributeKind::element_type}},
    .infer = infer_bit_cast,
    .eval =
        [](Evaluation& c) {
          const TensorView& out = c.out(0, c.in(0).extents());
          copy_elements(with_type(c.in(0), out.type), out);
        },
    .view =
        [](ViewRequest& v) {
          v.result = with_type(v.operand, v.result.type);
          return true;
        },
}};

}  // namespace lathe
