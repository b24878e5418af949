// SPDX-License-Identifier: MIT
#include "import/onnx/well_formed.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "import/onnx/node_order.h"

namespace lathe::onnx {
namespace {

// The names of one graph and, through `outer`, of those around it.
struct Scope {
  static constexpr int64_t kGiven = -1;                       // an input or initialiser
  std::unordered_map<std::string_view, int64_t> definitions;  // to the defining node's index
  const Scope* outer = nullptr;

  bool knows(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (scope->definitions.contains(name)) return true;
    }
    return false;
  }
  // Names of about the length of `unknown`: candidates for a suggestion.
  std::vector<std::string_view> names_like(std::string_view unknown) const {
    constexpr size_t kMost = 4096;  // bounds the time of a suggestion
    std::vector<std::string_view> out;
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      for (const auto& [name, place] : scope->definitions) {
        const size_t longer = std::max(name.size(), unknown.size());
        const size_t shorter = std::min(name.size(), unknown.size());
        if (longer - shorter <= 1 + longer / 3) out.push_back(name);
      }
    }
    std::sort(out.begin(), out.end());  // the order of a hash map is random
    out.resize(std::min(out.size(), kMost));
    return out;
  }
};

constexpr size_t kMaxDomains = 1000;  // the search is linear

using Names = std::unordered_set<std::string_view>;

class Checker {
 public:
  explicit Checker(const Model& model) : model_(model) {}

  void check_main(Graph& graph) {
    imports_ = &model_.imports;
    for (const ValueInfo& input : graph.inputs) {
      check(input.type.kind != ValueType::Kind::unknown, ErrorKind::invalid_model,
            "input '{}' of graph '{}' has no type", escape(input.name), escape(graph.name));
    }
    check_graph(graph, nullptr);
  }

  void check_function(Function& function) {
    imports_ = &function.imports;
    Scope scope;
    for (const std::string_view input : function.inputs) define(scope, input, Scope::kGiven);
    const std::string where = fmt::format("function '{}'", escape(function.name));
    check_nodes(function.nodes, scope, where);
    for (const std::string_view output : function.outputs) check_output(output, scope, where);
  }

 private:
  void define(Scope& scope, std::string_view name, int64_t place) const {
    check(!name.empty(), ErrorKind::invalid_model, "input or initialiser {} has no name",
          scope.definitions.size());
    check(scope.definitions.emplace(name, place).second, ErrorKind::invalid_model,
          "'{}' is defined twice, expected one definition of each name", escape(name));
  }

  void check_output(std::string_view name, const Scope& scope, std::string_view where) const {
    if (scope.knows(name)) return;
    fail(ErrorKind::invalid_model, "output '{}' of {} is not defined{}", escape(name), where,
         suggestion(name, scope));
  }

  static std::string suggestion(std::string_view name, const Scope& scope) {
    std::vector<std::string> safe;  // suggestions are printed unescaped
    for (const std::string_view candidate : scope.names_like(name))
      safe.push_back(escape(candidate));
    const std::vector<std::string_view> views(safe.begin(), safe.end());
    return did_you_mean(name, views);
  }

  // Returns the names that the graph uses from enclosing graphs.
  Names check_graph(Graph& graph, const Scope* outer) {
    check(depth_ < kMaxGraphDepth, ErrorKind::invalid_model,
          "subgraphs nest deeper than {} levels, in graph '{}'", kMaxGraphDepth,
          escape(graph.name));
    ++depth_;
    Scope scope;
    scope.outer = outer;
    const std::string where = fmt::format("graph '{}'", escape(graph.name));
    for (const ValueInfo& input : graph.inputs) define(scope, input.name, Scope::kGiven);
    Names initializers;
    for (const TensorData& tensor : graph.initializers) {
      check(initializers.insert(tensor.name).second, ErrorKind::invalid_model,
            "initialiser '{}' of {} is defined twice", escape(tensor.name), where);
      if (!scope.definitions.contains(tensor.name)) define(scope, tensor.name, Scope::kGiven);
    }
    Names captured = check_nodes(graph.nodes, scope, where);
    for (const ValueInfo& output : graph.outputs) {
      check_output(output.name, scope, where);
      if (!scope.definitions.contains(output.name)) captured.insert(output.name);
    }
    --depth_;
    return captured;
  }

  Names check_nodes(std::vector<Node>& nodes, Scope& scope, std::string_view where) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string_view output : nodes[i].outputs) {
        if (output.empty()) continue;
        with_note(nodes[i], [&] { define(scope, output, static_cast<int64_t>(i)); });
      }
    }
    Names captured;
    NodeUses uses(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      with_note(nodes[i], [&] {
        for (const std::string_view name : used_names(nodes[i], scope)) {
          const auto found = scope.definitions.find(name);
          if (found == scope.definitions.end())
            captured.insert(name);
          else if (found->second != Scope::kGiven)
            uses[i].push_back(found->second);
        }
      });
    }
    sort_nodes(nodes, uses, where);
    return captured;
  }

  // Inputs and the captures of subgraphs.
  Names used_names(Node& node, const Scope& scope) {
    check_domain(node);
    Names out;
    for (const std::string_view input : node.inputs) {
      if (input.empty()) continue;
      if (!scope.knows(input)) {
        fail(ErrorKind::invalid_model, "input '{}' is not defined{}", escape(input),
             suggestion(input, scope));
      }
      out.insert(input);
    }
    for (Attribute& attribute : node.attributes) {
      if (const auto* graph = attribute.get_if<std::shared_ptr<Graph>>()) {
        out.merge(check_graph(**graph, &scope));
      } else if (const auto* list = attribute.get_if<std::vector<std::shared_ptr<Graph>>>()) {
        for (const std::shared_ptr<Graph>& item : *list) out.merge(check_graph(*item, &scope));
      }
    }
    return out;
  }

  // The importer checks other domains; some need no version.
  void check_domain(const Node& node) const {
    check(!node.domain.empty() || opset_version(*imports_, "").has_value(),
          ErrorKind::invalid_model,
          "op type '{}' is of the standard domain, but no opset of that domain is imported",
          escape(node.op_type));
  }

  template <class F>
  void with_note(const Node& node, F&& body) const {
    try {
      body();
    } catch (Error& error) {
      error.note(node_note(model_.origin, *imports_, node));
      throw;
    }
  }

  const Model& model_;
  const OpsetImports* imports_ = nullptr;
  int depth_ = 0;
};

// Some files import a domain more than once; the last version counts.
void settle_imports(OpsetImports& imports, std::string_view where) {
  OpsetImports settled;
  for (auto import = imports.rbegin(); import != imports.rend(); ++import) {
    if (opset_version(settled, import->domain)) continue;
    check(import->version > 0, ErrorKind::invalid_model,
          "{} imports version {} of domain '{}', expected 1 or above", where, import->version,
          escape(import->domain));
    check(settled.size() < kMaxDomains, ErrorKind::invalid_model, "{} imports more than {} domains",
          where, kMaxDomains);
    settled.insert(settled.begin(), *import);
  }
  imports = std::move(settled);
}

}  // namespace

void make_well_formed(Model& model) {
  const std::string where = fmt::format("'{}'", escape(model.origin));
  // Files before version 3 of the format use opset 1.
  if (model.imports.empty() && model.ir_version < 3) model.imports.push_back({"", 1});
  check(!model.imports.empty(), ErrorKind::invalid_model,
        "{} imports no opset (ir_version {}), expected opset_import to name at least one", where,
        model.ir_version);
  settle_imports(model.imports, where);
  Checker checker(model);
  checker.check_main(model.graph);
  for (Function& function : model.functions) {
    try {
      if (function.imports.empty()) function.imports = model.imports;
      settle_imports(function.imports, fmt::format("function '{}'", escape(function.name)));
      checker.check_function(function);
    } catch (Error& error) {
      error.note(function_note(function));
      throw;
    }
  }
  check_calls(model);
}

}  // namespace lathe::onnx
