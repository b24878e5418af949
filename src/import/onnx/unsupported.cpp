// SPDX-License-Identifier: MIT
#include "import/onnx/unsupported.h"

#include <map>
#include <set>

#include "base/error.h"
#include "import/onnx/operator_table.h"

namespace lathe::onnx {
namespace {

struct Missing {
  std::string reason;
  int64_t nodes = 0;
  std::string first;  // the note of the first node
};

class Survey {
 public:
  explicit Survey(const Model& model) : model_(model) {}

  void add(const std::vector<Node>& nodes, const OpsetImports& imports) {
    for (const Node& node : nodes) {
      add(node, imports);
      for (const Attribute& attribute : node.attributes) {
        if (const auto* graph = attribute.get_if<std::shared_ptr<Graph>>()) {
          add((*graph)->nodes, imports);
        } else if (const auto* list = attribute.get_if<std::vector<std::shared_ptr<Graph>>>()) {
          for (const std::shared_ptr<Graph>& item : *list) add(item->nodes, imports);
        }
      }
    }
  }

  void report() const {
    if (missing_.empty()) return;
    std::string list;
    for (const auto& [name, missing] : missing_) {
      list += fmt::format("{}{} ({}, {} node{})", list.empty() ? "" : ", ", name, missing.reason,
                          missing.nodes, missing.nodes == 1 ? "" : "s");
    }
    Error error(ErrorKind::unsupported,
                fmt::format("{} operator{} of '{}' {} not supported: {}", missing_.size(),
                            missing_.size() == 1 ? "" : "s", escape(model_.origin),
                            missing_.size() == 1 ? "is" : "are", list));
    constexpr int kPlaces = 8;
    int places = 0;
    for (const auto& [name, missing] : missing_) {
      if (places++ < kPlaces) error.note(missing.first);
    }
    throw error;
  }

 private:
  void add(const Node& node, const OpsetImports& imports) {
    if (const Function* function = model_.find_function(node.domain, node.op_type, node.overload)) {
      if (!functions_.insert(function).second) return;
      add(function->nodes, function->imports);
      return;
    }
    const std::optional<int64_t> version = opset_version(imports, node.domain);
    const OperatorRow* row = find_operator(node.domain, node.op_type, version.value_or(1));
    if (row != nullptr && is_supported(*row)) return;
    const std::string name = fmt::format("{}{}{}", escape(node.domain),
                                         node.domain.empty() ? "" : ".", escape(node.op_type));
    Missing& missing = missing_[name];
    if (missing.nodes++ > 0) return;
    missing.reason = version ? fmt::format("opset {}", *version) : "domain not imported";
    if (const auto since = first_version(node))
      missing.reason += fmt::format(", supported since opset {}", *since);
    missing.first = node_note(model_.origin, imports, node);
  }

  // The first supported version of an operator; nullopt for an unknown one.
  static std::optional<int> first_version(const Node& node) {
    for (const OperatorRow& row : operator_rows()) {
      if (row.domain == node.domain && row.op_type == node.op_type && is_supported(row))
        return row.since;
    }
    return std::nullopt;
  }

  const Model& model_;
  std::map<std::string, Missing> missing_;
  std::set<const Function*> functions_;
};

}  // namespace

void check_supported(const Model& model) {
  Survey survey(model);
  survey.add(model.graph.nodes, model.imports);
  survey.report();
}

}  // namespace lathe::onnx
