// SPDX-License-Identifier: MIT
#include "import/onnx/model_info.h"

#include <unordered_map>

#include "import/onnx/external_data.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {
namespace {

void add_denotations(const ValueInfo& value, ModelInfo& out) {
  Denotations found{.type = std::string(value.type.denotation), .dims = {}};
  bool any = !found.type.empty();
  for (const Extent& extent : value.type.extents.value_or(std::vector<Extent>())) {
    found.dims.emplace_back(extent.denotation);
    any = any || !extent.denotation.empty();
  }
  if (any) out.denotations.emplace(std::string(value.name), std::move(found));
}

}  // namespace

std::shared_ptr<const ModelInfo> model_info(const Model& model, const ImportOptions& options) {
  auto out = std::make_shared<ModelInfo>();
  out->producer = model.producer;
  out->producer_version = model.producer_version;
  out->domain = model.domain;
  out->description = model.description;
  out->graph_name = model.graph.name;
  out->graph_description = model.graph.description;
  out->version = model.model_version;
  for (const auto& [key, value] : model.metadata) {
    out->properties.emplace_back(std::string(key), std::string(value));
  }
  std::unordered_map<std::string_view, const TensorData*> initializers;
  for (const TensorData& tensor : model.graph.initializers) {
    initializers.emplace(tensor.name, &tensor);
  }
  const auto add_default = [&](const TensorData& data, bool fed) {
    ModelInfo::Default& fallback = out->defaults.emplace_back();
    fallback.name = data.name;
    fallback.type = data.type;
    fallback.dims = data.dims;
    if (fed) fallback.tensor = to_tensor(data);
    initializers.erase(data.name);
  };
  for (const ValueInfo& input : model.graph.inputs) {
    add_denotations(input, *out);
    const auto found = initializers.find(input.name);
    // Old files list every initialiser as an input.
    const bool fed = options.fed.contains(input.name);
    if (found == initializers.end() || (model.ir_version < 4 && !fed)) continue;
    add_default(*found->second, fed);
  }
  for (const TensorData& tensor : model.graph.initializers) {
    if (options.fed.contains(tensor.name) && initializers.contains(tensor.name)) {
      add_default(tensor, true);
    }
  }
  for (const ValueInfo& output : model.graph.outputs) add_denotations(output, *out);
  return out;
}

}  // namespace lathe::onnx
