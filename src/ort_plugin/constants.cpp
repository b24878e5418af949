// SPDX-License-Identifier: MIT
#include "ort_plugin/constants.h"

#include <cstring>
#include <map>
#include <mutex>

#include "ir/literal.h"

namespace lathe::ort_plugin {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::TensorData;

constexpr size_t kSharedBytes = size_t{64} << 10;

bool is_view(const TensorData& data) {
  return data.owner == nullptr && !data.external && !data.bytes.empty();
}

struct Copy {
  std::weak_ptr<void> elements;
  ElementType type;
  Dims dims;
};

struct Store {
  std::mutex mutex;
  std::multimap<uint64_t, Copy> copies;  // by hash of type, shape and bytes
};

// A copy of the elements, which all holders of equal ones share.
Tensor shared_copy(const TensorData& data) {
  static Store& store = *new Store;  // sessions may outlive statics
  Literal literal;
  literal.tensor = Tensor(data.type, data.dims, Tensor::dense_strides(data.dims),
                          const_cast<std::byte*>(data.bytes.data()), nullptr);
  const uint64_t key = literal.hash();
  const std::scoped_lock lock(store.mutex);
  std::erase_if(store.copies, [](const auto& entry) { return entry.second.elements.expired(); });
  const auto [first, last] = store.copies.equal_range(key);
  for (auto at = first; at != last; ++at) {
    // Hashes may be equal by design of a model: compare all.
    const std::shared_ptr<void> known = at->second.elements.lock();
    if (known == nullptr || at->second.type != data.type || at->second.dims != data.dims) continue;
    Tensor shared(data.type, data.dims, Tensor::dense_strides(data.dims), known.get(), known);
    if (identical(shared, literal.tensor)) return shared;
  }
  Tensor made = literal.tensor.clone();
  // Aliases the elements: the key's entry knows their address by itself.
  const std::shared_ptr<void> elements(made.owner(), made.data());
  store.copies.emplace(key, Copy{elements, data.type, data.dims});
  return {data.type, data.dims, made.strides(), elements.get(), elements};
}

}  // namespace

void own_constant(TensorData& data) {
  if (!is_view(data)) return;
  Tensor copy;
  if (data.bytes.size() >= kSharedBytes) {
    copy = shared_copy(data);
  } else {
    copy = Tensor(data.type, data.dims);
    std::memcpy(copy.data(), data.bytes.data(), data.bytes.size());
  }
  data.bytes = {static_cast<const std::byte*>(copy.data()), data.bytes.size()};
  data.owner = copy.owner();
}

void own_constants(Graph& graph) {
  for (TensorData& data : graph.initializers) own_constant(data);
  for (Node& node : graph.nodes) {
    for (onnx::Attribute& attribute : node.attributes) {
      const auto* body = attribute.get_if<std::shared_ptr<Graph>>();
      if (body != nullptr) own_constants(**body);
    }
  }
}

}  // namespace lathe::ort_plugin
