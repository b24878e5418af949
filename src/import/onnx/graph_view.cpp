// SPDX-License-Identifier: MIT
#include "import/onnx/graph_view.h"

#include <array>

#include "base/error.h"

namespace lathe::onnx {

std::string_view to_string(Attribute::Kind kind) {
  constexpr std::array<std::string_view, 12> kNames{"SPARSE_TENSOR or TYPE_PROTOS",
                                                    "FLOAT",
                                                    "INT",
                                                    "STRING",
                                                    "TENSOR",
                                                    "GRAPH",
                                                    "FLOATS",
                                                    "INTS",
                                                    "STRINGS",
                                                    "TENSORS",
                                                    "GRAPHS",
                                                    "TYPE_PROTO"};
  static_assert(kNames.size() == std::variant_size_v<Attribute::Value>);
  return kNames[static_cast<size_t>(kind)];
}

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

std::optional<int64_t> opset_version(const OpsetImports& imports, std::string_view domain) {
  for (const OpsetImport& import : imports) {
    if (import.domain == canonical_domain(domain)) return import.version;
  }
  return std::nullopt;
}

const Function* Model::find_function(std::string_view function_domain, std::string_view name,
                                     std::string_view overload) const {
  for (const Function& function : functions) {
    if (function.name == name && function.domain == function_domain &&
        function.overload == overload) {
      return &function;
    }
  }
  return nullptr;
}

std::string node_note(std::string_view origin, const OpsetImports& imports, const Node& node) {
  std::string op = node.domain.empty() ? std::string() : escape(node.domain) + ".";
  op += node.op_type.empty() ? "without op type" : escape(node.op_type);
  const std::string name = node.name.empty() ? "" : fmt::format(" '{}'", escape(node.name));
  const std::optional<int64_t> version = opset_version(imports, node.domain);
  return fmt::format("in {}, node {} ({}{}, {})", escape(origin), node.index, op, name,
                     version ? fmt::format("opset {}", *version) : "opset not imported");
}

std::string function_note(const Function& function) {
  const std::string overload =
      function.overload.empty() ? "" : fmt::format(" (overload '{}')", escape(function.overload));
  return fmt::format("in function '{}:{}'{}", escape(function.domain), escape(function.name),
                     overload);
}

}  // namespace lathe::onnx
