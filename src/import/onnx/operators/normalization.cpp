// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"
#include "tensor/convert.h"

namespace lathe::onnx {
namespace {

Value* ones_like(NodeImport& c, Value* x, ElementType type) {
  return c.b("constant_of_shape", {c.b("shape", {x}), c.b.scalar(type, 1)});
}

// True if a flag is absent or known to be off.
bool is_off(NodeImport& c, int i) {
  if (!c.has(i)) return true;
  const std::optional<Tensor> value = c.literal(i);
  return value && value->count() == 1 && load_int(value->type(), value->data(), 0) == 0;
}

Value* normalised_vector(NodeImport& c) {
  std::vector<Value*> operands = c.inputs();
  operands[0] = c.b("unsqueeze", {c.in(0), c.b.integers({1})});
  Value* y = c.b(c.op(), std::move(operands), c.record_attributes(get_op(c.op())));
  return c.b("squeeze", {y, c.b.integers({1})});
}

// Statistics, scale and bias of each activation: they have the shape of a sample.
Value* normalised_activations(NodeImport& c) {
  Value* epsilon = c.b.scalar(c.element(4), c.number("epsilon", 1e-5));
  Value* deviation = c.b("sqrt", {c.b("add", {c.in(4), epsilon})});
  Value* normalised = c.b("div", {c.b("sub", {c.in(0), c.in(3)}), deviation});
  return c.b("add", {c.b("mul", {normalised, c.in(1)}), c.in(2)});
}

}  // namespace

// A vector is a batch with one channel.
void import_batch_normalization(NodeImport& c) {
  if (c.rank(0) == 1) return c.out(0, normalised_vector(c));
  c.plain(c.inputs());
}

// ONNX Runtime's LayerNormalization-1 ignores unknown attributes. Files with the misspelt "epsion"
// use the default epsilon. The result has the element type of the scale.
void import_layer_normalization_1(NodeImport& c) {
  c.ignore({"epsion"});
  std::vector<Value*> operands = c.inputs();
  operands[0] = c.b.cast(c.in(0), c.element(1));
  c.plain(std::move(operands));
}

// The default axes are those of NCHW images that x has.
void import_mean_variance_normalization(NodeImport& c) {
  Integers axes{0, 2, 3};
  if (!c.has_attribute("axes")) {
    const int rank = c.rank(0);
    std::erase_if(axes, [&](int64_t axis) { return axis >= rank; });
  }
  c.plain(c.inputs(), {{"axes", c.integers("axes", axes)}});
}

// Inference only: the training outputs are the given statistics.
void import_batch_normalization_1(NodeImport& c) {
  c.ignore({"is_test", "momentum", "spatial"});
  c.check(c.outputs() <= 5, "the node has {} outputs, expected 5 at most", c.outputs());
  if (c.integer("spatial", 1) == 0) {
    c.out(0, normalised_activations(c));
  } else if (c.rank(0) == 1) {
    c.out(0, normalised_vector(c));
  } else {
    c.out(0, c.b(c.op(), c.inputs(), c.record_attributes(get_op(c.op()))));
  }
  for (int i = 1; i < c.outputs(); ++i) c.out(i, c.in(i % 2 == 1 ? 3 : 4));
}

// Inference keeps every element. From opset 12 on an operand may enable training.
void import_dropout(NodeImport& c) {
  if (c.version >= 12 && !is_off(c, 2)) {
    c.supported(c.has_attribute("seed"), "training_mode (input 2 of {}) requires attribute 'seed'",
                c.count());
    c.plain("dropout", c.inputs());
    return;
  }
  c.ignore({"is_test", "ratio", "seed"});
  c.out(0, c.b("identity", {c.in(0)}));
  if (!c.is_used(1)) return;
  c.out(1, ones_like(c, c.in(0), c.version < 10 ? c.element(0) : ElementType::boolean));
}

// Expands scale and bias per group to scale and bias per channel.
void import_group_normalization_18(NodeImport& c) {
  const int64_t groups = c.integer("num_groups");
  c.check(groups > 0, "num_groups is {}, expected 1 or more", groups);
  Value* channels = c.b("shape", {c.in(0)}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  Value* each = c.b("div", {channels, c.b.integers({groups})});
  Value* shape = c.b("concat", {c.b.integers({groups}), each}, {{"axis", int64_t{0}}});
  const auto per_channel = [&](Value* value) {
    Value* column = c.b("unsqueeze", {value, c.b.integers({1})});
    return c.b("reshape", {c.b("expand", {column, shape}), channels});
  };
  Value* scale = per_channel(c.in(1));
  c.plain({c.in(0), scale, per_channel(c.in(2))}, {{"num_groups", groups}});
}

}  // namespace lathe::onnx
