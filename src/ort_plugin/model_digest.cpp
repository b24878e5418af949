// SPDX-License-Identifier: MIT
#include "ort_plugin/model_digest.h"

#include <xxhash.h>

#include <type_traits>

#include "base/error.h"
#include "import/onnx/tensor_proto.h"
#include "ir/literal.h"

namespace lathe::ort_plugin {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Node;
using onnx::TensorData;
using onnx::ValueInfo;
using onnx::ValueType;

class Digest {
 public:
  Digest() { XXH3_128bits_reset(state_); }
  ~Digest() { XXH3_freeState(state_); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  // Lists and texts begin with their size, so that different models have different bytes.
  void add(std::string_view text) {
    add(text.size());
    XXH3_128bits_update(state_, text.data(), text.size());
  }
  template <class Number>
    requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void add(Number number) {
    XXH3_128bits_update(state_, &number, sizeof(number));
  }
  template <class Item>
  void add(const std::vector<Item>& items) {
    add(items.size());
    for (const Item& item : items) add(item);
  }
  template <class Item>
  void add(const std::shared_ptr<Item>& item) {
    add(item != nullptr);
    if (item != nullptr) add(*item);
  }
  void add(const TensorData& data) {
    add(data.name);
    Literal literal;
    literal.tensor = to_tensor(data, onnx::Misaligned::keep);
    add(literal.hash());
  }
  void add(const onnx::Extent& extent) {
    add(extent.value);
    add(extent.symbol);
  }
  void add(const ValueType& type) {
    add(type.kind);
    add(type.element ? static_cast<int>(*type.element) : -1);
    add(type.extents.has_value());
    if (type.extents) add(*type.extents);
    add(type.item);
  }
  void add(const ValueInfo& info) {
    add(info.name);
    add(info.type);
  }
  void add(const Attribute& attribute) {
    add(attribute.name);
    add(attribute.value.index());
    std::visit([this](const auto& value) { add(value); }, attribute.value);
  }
  void add(const Node& node) {
    add(node.op_type);
    add(node.domain);
    add(node.overload);
    add(node.inputs);
    add(node.outputs);
    add(node.attributes);
  }
  void add(const Graph& graph) {
    add(graph.inputs);
    add(graph.outputs);
    add(graph.value_infos);
    add(graph.initializers);
    add(graph.nodes);
  }
  void add(const onnx::OpsetImport& import) {
    add(import.domain);
    add(import.version);
  }

  std::string digits() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  void add(std::monostate /*no value*/) {}
  XXH3_state_t* state_ = XXH3_createState();
};

}  // namespace

std::string model_digest(const onnx::Model& model, std::string_view settings) {
  check(model.functions.empty(), ErrorKind::internal,
        "the host passed {} functions of the model, which it expands", model.functions.size());
  Digest digest;
  digest.add(settings);
  digest.add(model.imports);
  digest.add(model.graph);
  return digest.digits();
}

}  // namespace lathe::ort_plugin
