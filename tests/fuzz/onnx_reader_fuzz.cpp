// SPDX-License-Identifier: MIT
// Any bytes as an ONNX model, as its textual syntax and as stored values.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "import/onnx/reader.h"
#include "import/onnx/tensor_proto.h"
#include "import/onnx/text_reader.h"

namespace lathe::onnx {
namespace {

volatile size_t sink;  // keeps the reads

void touch(std::string_view text) {
  for (const char c : text) sink = sink + static_cast<unsigned char>(c);
}

void touch(const TensorData& data) {
  touch(data.name);
  if (data.external) return;  // fuzzing reads no files
  const Tensor tensor = to_tensor(data);
  if (tensor.type() == ElementType::string) {
    for (const std::string& text : tensor.elements<std::string>()) touch(text);
  } else {
    touch({static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.byte_size())});
  }
}

void touch(const Graph& graph);

void touch(const Attribute& attribute) {
  touch(attribute.name);
  touch(attribute.reference);
  if (const auto* text = attribute.get_if<std::string_view>()) touch(*text);
  if (const auto* tensor = attribute.get_if<std::shared_ptr<const TensorData>>()) touch(**tensor);
  if (const auto* graph = attribute.get_if<std::shared_ptr<Graph>>()) touch(**graph);
}

void touch(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    touch(node.name);
    touch(node.op_type);
    touch(node.domain);
    for (const std::string_view name : node.inputs) touch(name);
    for (const std::string_view name : node.outputs) touch(name);
    for (const Attribute& attribute : node.attributes) touch(attribute);
  }
}

void touch(const Graph& graph) {
  touch(graph.name);
  for (const ValueInfo& info : graph.inputs) touch(info.name);
  for (const TensorData& data : graph.initializers) touch(data);
  touch(graph.nodes);
}

template <class F>
void attempt(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    touch(error.what());
  }
}

void touch(const Model& model) {
  touch(model.graph);
  for (const Function& function : model.functions) touch(function.nodes);
}

}  // namespace
}  // namespace lathe::onnx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe::onnx;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  attempt([&] { touch(parse_model(bytes, "fuzz", nullptr)); });
  attempt([&] { touch(parse_text_model(bytes)); });
  for (const auto kind : {ValueType::Kind::tensor, ValueType::Kind::sequence,
                          ValueType::Kind::optional, ValueType::Kind::map}) {
    attempt([&] { parse_stored_value(bytes, "fuzz", kind, {}); });
  }
  return 0;
}
