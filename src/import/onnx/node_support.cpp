// SPDX-License-Identifier: MIT
#include "import/onnx/node_support.h"

#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "import/onnx/scope.h"

namespace lathe::onnx {
namespace {

// The values of a main graph by name.
class Values {
 public:
  explicit Values(const Graph& graph) {
    for (const auto* list : {&graph.value_infos, &graph.outputs, &graph.inputs}) {
      for (const ValueInfo& info : *list) types_[info.name] = &info;
    }
    for (const ValueInfo& input : graph.inputs) inputs_.insert(input.name);
    for (const TensorData& tensor : graph.initializers) initializers_[tensor.name] = &tensor;
  }

  Model part(const Model& model, const std::vector<const Node*>& nodes,
             const std::vector<std::string_view>& outputs) const {
    Model out;
    out.origin = model.origin;
    out.ir_version = model.ir_version;
    out.imports = model.imports;
    out.functions = model.functions;
    out.file = model.file;
    out.owners = model.owners;
    out.graph.name = model.graph.name;
    std::unordered_set<std::string_view> known;
    for (const Node* node : nodes) {
      for (const std::string_view name : values_read(*node)) {
        if (known.insert(name).second) add_given(name, out.graph);
      }
      for (const std::string_view name : node->outputs) {
        if (name.empty()) continue;
        known.insert(name);
        if (outputs.empty()) out.graph.outputs.push_back(value(name));
      }
      out.graph.nodes.push_back(*node);
    }
    for (const std::string_view name : outputs) out.graph.outputs.push_back(value(name));
    return out;
  }

 private:
  ValueInfo value(std::string_view name) const {
    const auto info = types_.find(name);
    return info != types_.end() ? *info->second : ValueInfo{name, {}};
  }
  void add_given(std::string_view name, Graph& graph) const {
    const auto tensor = initializers_.find(name);
    if (tensor != initializers_.end()) graph.initializers.push_back(*tensor->second);
    if (tensor == initializers_.end() || inputs_.contains(name))
      graph.inputs.push_back(value(name));
  }

  std::unordered_map<std::string_view, const ValueInfo*> types_;
  std::unordered_set<std::string_view> inputs_;
  std::unordered_map<std::string_view, const TensorData*> initializers_;
};

void collect_graphs(const Node& node, std::vector<const Graph*>& out) {
  for (const Attribute& attribute : node.attributes) {
    if (const auto* graph = attribute.get_if<std::shared_ptr<Graph>>()) {
      out.push_back(graph->get());
    } else if (const auto* list = attribute.get_if<std::vector<std::shared_ptr<Graph>>>()) {
      for (const std::shared_ptr<Graph>& item : *list) out.push_back(item.get());
    }
  }
}

}  // namespace

std::vector<std::string_view> values_read(const Node& node) {
  std::vector<std::string_view> out;
  std::unordered_set<std::string_view> seen;
  for (const std::string_view input : node.inputs) {
    if (!input.empty() && seen.insert(input).second) out.push_back(input);
  }
  std::vector<const Graph*> graphs;
  collect_graphs(node, graphs);
  if (graphs.empty()) return out;
  for (const std::string_view name : free_names(graphs)) {
    if (seen.insert(name).second) out.push_back(name);
  }
  return out;
}

Model part_of(const Model& model, const std::vector<const Node*>& nodes,
              const std::vector<std::string_view>& outputs) {
  return Values(model.graph).part(model, nodes, outputs);
}

std::vector<std::string> node_refusals(const Model& model) {
  const Values values(model.graph);
  std::vector<std::string> out;
  out.reserve(model.graph.nodes.size());
  for (const Node& node : model.graph.nodes) {
    out.emplace_back();
    try {
      static_cast<void>(import_onnx(values.part(model, {&node}, {})));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) throw;
      out.back() = error.message();
    }
  }
  return out;
}

std::vector<std::string> refusals(const Model& model, const ImportOptions& options) {
  try {
    static_cast<void>(import_onnx(model, options));
    return std::vector<std::string>(model.graph.nodes.size());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::interrupted) throw;
    return node_refusals(model);
  }
}

}  // namespace lathe::onnx
