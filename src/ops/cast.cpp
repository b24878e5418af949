// SPDX-License-Identifier: MIT
#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convolution.h"
#include "ops/support/dense_operand.h"
#include "ops/support/views.h"
#include "ops/token_step.h"
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

// Strings are objects: only a Tensor constructs and destroys them.
void cast_strings(const TensorView& x, const TensorView& out) {
  const Tensor from = dense_tensor(x);
  const Tensor to(out.type, dims_of(out));
  convert(out.type, to.data(), from.type(), from.data(), from.count());
  copy_elements(to.view(), out);
}

void eval_cast(Evaluation& c) {
  const TensorView& out = c.out(0);
  if (out.type == ElementType::string || c.in(0).type == ElementType::string) {
    return cast_strings(c.in(0), out);
  }
  const DenseOperand from(c.in(0));
  const std::string& mode = c.text("round_mode");
  const ConvertOptions options{.saturate = c.boolean("saturate"),
                               .scale_rounding = mode == "down"      ? ScaleRounding::down
                                                 : mode == "nearest" ? ScaleRounding::nearest
                                                                     : ScaleRounding::up};
  if (out.is_dense()) {
    convert(out.type, out.data, from.type(), from.data(), from.count(), options);
    return;
  }
  const ScratchBlock to(bytes_for(out.type, from.count()));
  convert(out.type, to.data(), from.type(), from.data(), from.count(), options);
  copy_elements(dense_view(out.type, out.extents(), to.data()), out);
}

}  // namespace

static const Register cast_op{{
    .name = "cast",
    .doc = "Converts the element type, by the rules of ONNX Cast.",
    .operands = {{"x"}},
    .attributes = {{"round_mode", "up"}, {"saturate", true}, {"to", AttributeKind::element_type}},
    .infer = infer_cast,
    .eval = eval_cast,
    .tokens = elementwise_tokens,
}};

}  // namespace lathe
