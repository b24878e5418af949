// SPDX-License-Identifier: MIT
#include "ort_plugin/capability.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "import/onnx/importer.h"
#include "import/onnx/node_support.h"
#include "import/onnx/random_numbers.h"
#include "ort_plugin/context.h"
#include "ort_plugin/partition.h"

namespace lathe::ort_plugin {
namespace {

using onnx::Graph;
using onnx::Model;
using onnx::Node;

// Bodies can be claimed apart from their node from here on; before, all fused nodes of a model
// must be in one graph.
constexpr Version kBodies{1, 24, 4};
// From here on a group receives values that only bodies in it read.
constexpr Version kCaptures{1, 28, 0};
// Before this version, a session fails if one node stays with the CPU EP.
constexpr Version kPartial{1, 23, 1};

bool is_refused(const Node& node, const std::set<std::string, std::less<>>& refuse) {
  if (refuse.empty()) return false;
  if (refuse.contains(node.op_type)) return true;
  for (const onnx::Attribute& attribute : node.attributes) {
    const auto* body = attribute.get_if<std::shared_ptr<Graph>>();
    if (body == nullptr) continue;
    const auto inside = [&](const Node& inner) { return is_refused(inner, refuse); };
    if (std::ranges::any_of((*body)->nodes, inside)) return true;
  }
  return false;
}

// "" or why the model cannot be imported.
std::string import_problem(const Model& model, const ImportOptions& options = {}) {
  try {
    static_cast<void>(import_onnx(model, options));
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

class Claimer {
 public:
  Claimer(const Host& host, const OrtGraph& graph, const EpOptions& options,
          const std::string& folder)
      : host_(host),
        options_(options),
        folder_(folder),
        reader_(host, folder),
        read_(read(graph)),
        graph_(read_.model.graph),
        reasons_(graph_.nodes.size()) {
    claims_.graph = std::string(graph_.name);
    const OrtNode* parent = nullptr;
    host_.check(host_->Graph_GetParentNode(&graph, &parent));
    claims_.is_body = parent != nullptr || read_.reads_outer;
    if (claims_.is_body && (host_.version() < kBodies || parent == nullptr)) return;
    if (parent != nullptr && claims_around(*parent)) return;
    if (host_.version() < kBodies && looks_like_body()) return;
    find_reasons();
    claim();
  }

  Claims take() { return std::move(claims_); }

 private:
  ReadGraph read(const OrtGraph& graph) {
    reader_.skip_contexts();
    return reader_.read(graph);
  }

  // True if the node that holds this body is claimed with it.
  bool claims_around(const OrtNode& parent) {
    const OrtGraph* around = nullptr;
    host_.check(host_->Node_GetGraph(&parent, &around));
    if (around == nullptr) return true;
    try {
      GraphReader reader(host_, folder_);
      const Model model = reader.read_node(*around, parent);
      return !is_refused(model.graph.nodes.front(), options_.refuse) &&
             import_problem(model).empty();
    } catch (const Error&) {
      return false;
    }
  }

  // Bodies without captures cannot be distinguished from a main graph on these hosts. A branch has
  // no inputs; a loop's body begins with a counter and a condition.
  bool looks_like_body() const {
    if (graph_.inputs.empty()) return true;
    if (graph_.inputs.size() < 2 || graph_.outputs.empty()) return false;
    const auto is_scalar = [](const onnx::ValueInfo& info, ElementType type) {
      return info.type.element == type && info.type.extents && info.type.extents->empty();
    };
    return is_scalar(graph_.inputs[0], ElementType::i64) &&
           is_scalar(graph_.inputs[1], ElementType::boolean) &&
           graph_.outputs[0].type.element == ElementType::boolean;
  }

  bool uses_strings(const OrtNode& node) {
    std::vector<const OrtValueInfo*> values = inputs_of(host_, node);
    std::ranges::copy(outputs_of(host_, node), std::back_inserter(values));
    return std::ranges::any_of(values, [&](const OrtValueInfo* value) {
      return value != nullptr && reader_.read_value(*value).type.element == ElementType::string;
    });
  }

  void find_reasons() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const char* owner = nullptr;
      host_.check(host_->Node_GetEpName(node_of(i), &owner));
      if (owner != nullptr && *owner != '\0') {
        taken_.insert(i);
        reasons_[i] = "another execution provider has it";
        continue;
      }
      if (claims_.first == nullptr) claims_.first = node_of(i);
      if (is_refused(node, options_.refuse)) {
        reasons_[i] = "option 'refuse' names it";
      } else if (is_own_context(node)) {
        contexts_.push_back(i);
        reasons_[i] = "it is a compiled group by itself";
      } else if (node.op_type == kContextOp) {
        reasons_[i] = "it is the compiled context of another execution provider";
      } else if (options_.device_memory && uses_strings(*node_of(i))) {
        reasons_[i] = "strings cannot lie in a GPU's memory, where values of this session lie";
      } else if (onnx::draws_random(read_.model, {&node, 1})) {
        reasons_[i] =
            "random numbers are a state, and ONNX Runtime may run a session twice at once";
      }
    }
    claims_.nodes = graph_.nodes.size() - taken_.size();
    const auto is_free = [](const std::string& reason) { return reason.empty(); };
    const bool free = std::ranges::all_of(reasons_, is_free);
    ImportOptions all;
    all.fed = {read_.overridable.begin(), read_.overridable.end()};
    const std::vector<std::string> refusals =
        free ? onnx::refusals(read_.model, all) : onnx::node_refusals(read_.model);
    for (size_t i = 0; i < reasons_.size(); ++i) {
      if (reasons_[i].empty()) reasons_[i] = refusals[i];
    }
  }

  void claim() {
    std::vector<NodeFacts> facts;
    for (size_t i = 0; i < reasons_.size(); ++i) {
      facts.push_back({reasons_[i].empty(), is_heavy(graph_.nodes[i])});
    }
    std::vector<std::vector<size_t>> groups = partition(graph_, facts);
    while (host_.version() < kCaptures && refuse_unpassed(groups, facts)) {
      groups = partition(graph_, facts);
    }
    if (groups.size() != 1 || groups.front().size() != graph_.nodes.size()) {
      std::erase_if(groups, [&](const std::vector<size_t>& group) { return !can_import(group); });
      const bool whole = groups.size() == 1 && groups.front().size() == graph_.nodes.size();
      if (host_.version() < kPartial && !whole) groups.clear();
    }
    const bool all = contexts_.size() == graph_.nodes.size();
    for (const size_t i : contexts_) {
      if (host_.version() < kPartial && !all) break;
      groups.push_back({i});
      reasons_[i].clear();
    }
    for (const std::vector<size_t>& group : groups) {
      std::vector<const OrtNode*>& out = claims_.groups.emplace_back();
      for (const size_t i : group) out.push_back(node_of(i));
      claims_.claimed += group.size();
    }
    for (size_t i = 0; i < reasons_.size(); ++i) {
      if (reasons_[i].empty() || taken_.contains(i)) continue;
      const Node& node = graph_.nodes[i];
      claims_.refusals.push_back(
          {fmt::format("{} '{}'", escape(node.op_type), escape(node.name)), reasons_[i]});
    }
  }

  // Hosts before kCaptures pass a group no value that only bodies in it read: refuses the nodes
  // with such bodies. True if there are any.
  bool refuse_unpassed(const std::vector<std::vector<size_t>>& groups,
                       std::vector<NodeFacts>& facts) {
    bool found = false;
    for (const std::vector<size_t>& group : groups) {
      std::unordered_set<std::string_view> known;
      for (const onnx::TensorData& tensor : graph_.initializers) known.insert(tensor.name);
      for (const size_t i : group) {
        const Node& node = graph_.nodes[i];
        known.insert(node.inputs.begin(), node.inputs.end());
        known.insert(node.outputs.begin(), node.outputs.end());
      }
      for (const size_t i : group) {
        for (const std::string_view name : onnx::values_read(graph_.nodes[i])) {
          if (known.contains(name)) continue;
          reasons_[i] = fmt::format(
              "ONNX Runtime before 1.28 does not pass '{}' to a group, as only bodies read it",
              escape(name));
          facts[i].supported = false;
          found = true;
        }
      }
    }
    return found;
  }

  // Imports a group with the types at its boundary; refuses its nodes if that fails.
  bool can_import(const std::vector<size_t>& group) {
    std::vector<const Node*> nodes;
    std::unordered_set<std::string_view> computed;
    std::unordered_set<size_t> members(group.begin(), group.end());
    for (const size_t i : group) {
      nodes.push_back(&graph_.nodes[i]);
      for (const std::string_view name : graph_.nodes[i].outputs) {
        if (!name.empty()) computed.insert(name);
      }
    }
    std::unordered_set<std::string_view> read_outside;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (members.contains(i)) continue;
      for (const std::string_view name : onnx::values_read(graph_.nodes[i])) {
        read_outside.insert(name);
      }
    }
    for (const onnx::ValueInfo& output : graph_.outputs) read_outside.insert(output.name);
    std::vector<std::string_view> outputs;
    for (const std::string_view name : computed) {
      if (read_outside.contains(name)) outputs.push_back(name);
    }
    std::ranges::sort(outputs);
    Model part = onnx::part_of(read_.model, nodes, outputs);
    const std::set<std::string> unranked = unrank(part.graph);
    ImportOptions fed;
    for (const std::string& name : read_.overridable) fed.fed.insert(name);
    const std::string problem = import_problem(part, fed);
    if (problem.empty()) {
      claims_.unranked.insert(unranked.begin(), unranked.end());
      return true;
    }
    for (const size_t i : group) {
      reasons_[i] = fmt::format("its group cannot be imported: {}", problem);
    }
    return false;
  }

  // A value without a known shape looks like a scalar here: inputs that other nodes compute lose
  // their rank.
  std::set<std::string> unrank(Graph& part) const {
    std::set<std::string_view> given;
    for (const onnx::ValueInfo& input : graph_.inputs) given.insert(input.name);
    std::set<std::string> out;
    for (onnx::ValueInfo& input : part.inputs) {
      if (given.contains(input.name) || !input.type.extents || !input.type.extents->empty()) {
        continue;
      }
      input.type.extents.reset();
      out.emplace(input.name);
    }
    return out;
  }

  const OrtNode* node_of(size_t i) const {
    return read_.nodes[static_cast<size_t>(graph_.nodes[i].index)];
  }

  const Host& host_;
  const EpOptions& options_;
  const std::string& folder_;
  GraphReader reader_;
  ReadGraph read_;
  const Graph& graph_;
  std::vector<std::string> reasons_;  // by node; "": supported
  std::set<size_t> taken_;
  std::vector<size_t> contexts_;  // nodes EPContext of this library
  Claims claims_;
};

}  // namespace

Claims find_claims(const Host& host, const OrtGraph& graph, const EpOptions& options,
                   const std::string& folder) {
  return Claimer(host, graph, options, folder).take();
}

std::string summary(const Claims& claims) {
  constexpr size_t kShown = 4;
  std::string out =
      fmt::format("Lathe claims {} of {} nodes in {} group{}", claims.claimed, claims.nodes,
                  claims.groups.size(), claims.groups.size() == 1 ? "" : "s");
  size_t shown = 0;
  for (const Refusal& refusal : claims.refusals) {
    if (shown++ == kShown) break;
    out += fmt::format("{}{}: {}", shown == 1 ? "; refused: " : "; ", refusal.node, refusal.reason);
  }
  if (claims.refusals.size() > kShown) {
    out += fmt::format("; and {} more", claims.refusals.size() - kShown);
  } else if (claims.refusals.empty() && claims.claimed < claims.nodes) {
    out += "; the others form groups too small to gain";
  }
  return out;
}

}  // namespace lathe::ort_plugin
