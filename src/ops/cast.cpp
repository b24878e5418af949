// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

void infer_cast(Infer& c) {
  const ElementType to = c.element_type("to");
  c.result(to, c.dims(0));
  if (c.elements(0) != nullptr && is_integer(to) && info(to).bits >= 32) {
    c.result_elements(*c.elements(0));
  }
}

void eval_cast(Evaluation& c) {
  const TensorView& out = c.out(0);
  const auto dense = [](const TensorView& view) {
    const Dims dims(view.extents().begin(), view.extents().end());
    const Dims strides(view.strides.begin(), view.strides.begin() + view.rank);
    return Tensor(view.type, dims, strides, view.data, nullptr).dense();
  };
  const Tensor from = dense(c.in(0));
  const std::string& mode = c.text("round_mode");
  const ConvertOptions options{.saturate = c.boolean("saturate"),
                               .scale_rounding = mode == "down"      ? ScaleRounding::down
                                                 : mode == "nearest" ? ScaleRounding::nearest
                                                                     : ScaleRounding::up};
  if (out.is_dense()) {
    convert(out.type, out.data, from.type(), from.data(), from.count(), options);
    return;
  }
  const Tensor to(out.type, from.dims());
  convert(out.type, to.data(), from.type(), from.data(), from.count(), options);
  copy_elements(to.view(), out);
}

}  // namespace

static const Register cast_op{{
    .name = "cast",
    .doc = "x in another element type, by the rules of ONNX Cast.",
    .operands = {{"x"}},
    .attributes = {{"round_mode", "up"}, {"saturate", true}, {"to", AttributeKind::element_type}},
    .infer = infer_cast,
    .eval = eval_cast,
}};

}  // namespace lathe
