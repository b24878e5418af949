// SPDX-License-Identifier: MIT
#include "import/onnx/scope.h"

#include "base/error.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {
namespace {

// Appends to `out` the names that `graph` uses from outer graphs.
void collect_free(const Graph& graph, std::vector<std::string_view>& out) {
  std::unordered_set<std::string_view> defined;
  for (const ValueInfo& input : graph.inputs) defined.insert(input.name);
  for (const TensorData& tensor : graph.initializers) defined.insert(tensor.name);
  const auto use = [&](std::string_view name) {
    if (!name.empty() && !defined.contains(name)) out.push_back(name);
  };
  for (const Node& node : graph.nodes) {
    for (const std::string_view input : node.inputs) use(input);
    for (const Attribute& attribute : node.attributes) {
      std::vector<std::string_view> inner;
      if (const auto* body = attribute.get_if<std::shared_ptr<Graph>>()) {
        collect_free(**body, inner);
      } else if (const auto* list = attribute.get_if<std::vector<std::shared_ptr<Graph>>>()) {
        for (const std::shared_ptr<Graph>& item : *list) collect_free(*item, inner);
      }
      for (const std::string_view name : inner) use(name);
    }
    for (const std::string_view output : node.outputs) defined.insert(output);
  }
  for (const ValueInfo& output : graph.outputs) use(output.name);
}

LiteralRef literal_of(const Value* value) {
  const bool computed = value != nullptr && value->definition() != nullptr;
  return computed ? value->definition()->literal() : nullptr;
}

}  // namespace

const Attribute* CallAttributes::find(std::string_view name) const {
  if (const Attribute* given = call->find(name)) return resolve(*given, outer);
  for (const Attribute& fallback : function->defaults) {
    if (fallback.name == name) return &fallback;
  }
  return nullptr;
}

const Attribute* resolve(const Attribute& attribute, const CallAttributes* call) {
  if (attribute.reference.empty()) return &attribute;
  check(call != nullptr, ErrorKind::invalid_model,
        "attribute '{}' refers to '{}', but its node is not in a function", escape(attribute.name),
        escape(attribute.reference));
  return call->find(attribute.reference);
}

LiteralRef ImportState::literal_of(const TensorData& tensor) {
  LiteralRef& found = literals[&tensor];
  if (found != nullptr) return found;
  auto literal = std::make_shared<Literal>();
  literal->tensor = to_tensor(tensor, Misaligned::keep);
  if (std::optional<FilePlace> place = file_place(model, tensor)) {
    literal->file = std::move(place->file);
    literal->offset = place->offset;
  }
  found = std::move(literal);
  return found;
}

LiteralRef Scope::find_literal(std::string_view name) {
  for (Scope* scope = this; scope != nullptr; scope = scope->outer) {
    if (const auto value = scope->values_.find(name); value != scope->values_.end())
      return onnx::literal_of(value->second);
    if (const auto tensor = scope->initializers_.find(name); tensor != scope->initializers_.end())
      return state.literal_of(*tensor->second);
  }
  return nullptr;
}

Value* Scope::find(std::string_view name) {
  if (const auto value = values_.find(name); value != values_.end()) return value->second;
  Value* value = nullptr;
  if (LiteralRef literal = find_literal(name)) {
    value = Builder(module).literal(std::move(literal), name);
    state.named.insert(value);
  } else if (outer != nullptr && (&outer->module == &module || outer->is_absent(name))) {
    value = outer->find(name);
    if (value == nullptr) return nullptr;
  }
  check(value != nullptr, ErrorKind::invalid_model, "'{}' is used before it is defined",
        escape(name));
  define(name, value);
  return value;
}

bool Scope::is_absent(std::string_view name) const {
  const auto value = values_.find(name);
  if (value != values_.end()) return value->second == nullptr;
  return outer != nullptr && !initializers_.contains(name) && outer->is_absent(name);
}

std::vector<std::string_view> free_names(const std::vector<const Graph*>& graphs) {
  std::vector<std::string_view> out;
  std::unordered_set<std::string_view> seen;
  for (const Graph* graph : graphs) {
    std::vector<std::string_view> names;
    collect_free(*graph, names);
    for (const std::string_view name : names) {
      if (seen.insert(name).second) out.push_back(name);
    }
  }
  return out;
}

}  // namespace lathe::onnx
