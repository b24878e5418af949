// SPDX-License-Identifier: MIT
#include <algorithm>

#include "import/onnx/operators/operators.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {
namespace {

template <class T, class List>
Tensor tensor_of(ElementType type, const List& values, bool scalar) {
  Tensor out(type, scalar ? Dims{} : Dims{static_cast<int64_t>(values.size())});
  std::transform(values.begin(), values.end(), out.as<T>(),
                 [](const auto& value) { return static_cast<T>(value); });
  return out;
}

}  // namespace

// Exactly one attribute has the value.
void import_constant(NodeImport& c) {
  for (const std::string_view name : {"value", "sparse_value"}) {
    if (c.has_attribute(name)) return c.out(0, c.constant(c.tensor(name)));
  }
  Tensor value;
  if (c.has_attribute("value_float")) {
    value = tensor_of<float>(ElementType::f32, Numbers{c.number("value_float")}, true);
  } else if (c.has_attribute("value_floats")) {
    value = tensor_of<float>(ElementType::f32, c.numbers("value_floats"), false);
  } else if (c.has_attribute("value_int")) {
    value = tensor_of<int64_t>(ElementType::i64, Integers{c.integer("value_int")}, true);
  } else if (c.has_attribute("value_ints")) {
    value = tensor_of<int64_t>(ElementType::i64, c.integers("value_ints"), false);
  } else if (c.has_attribute("value_string")) {
    value = tensor_of<std::string>(ElementType::string, Texts{std::string(c.text("value_string"))},
                                   true);
  } else if (c.has_attribute("value_strings")) {
    value = tensor_of<std::string>(ElementType::string, c.texts("value_strings"), false);
  } else {
    c.fail("none of the {} attributes has a value", c.node.attributes.size());
  }
  c.out(0, c.b.literal(std::move(value)));
}

// A reshaped constant stays a literal, so that later nodes can read its value.
void import_identity(NodeImport& c) {
  if (c.literal(0)) return c.out(0, c.in(0));
  c.plain(c.inputs());
}

// The value is a tensor of one element, of any shape.
void import_constant_of_shape(NodeImport& c) {
  Value* value = nullptr;
  if (c.has_attribute("value")) {
    const TensorData& data = c.tensor("value");
    c.check(checked_count(data.type, data.dims, data.name) == 1,
            "attribute 'value' has {} elements, expected 1",
            checked_count(data.type, data.dims, data.name));
    const Tensor stored = to_tensor(data);
    value = c.b.literal(Tensor(stored.type(), {}, {}, stored.data(), stored.owner()));
  }
  c.plain({c.in(0), value});
}

}  // namespace lathe::onnx
