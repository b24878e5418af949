// SPDX-License-Identifier: MIT
// Names in scope while a graph is imported.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "import/onnx/graph_view.h"
#include "import/onnx/value_types.h"
#include "ir/builder.h"

namespace lathe::onnx {

// The attributes of a call to a model-local function; its nodes may refer to them.
struct CallAttributes {
  const Function* function = nullptr;
  const Node* call = nullptr;
  const CallAttributes* outer = nullptr;  // of the calling function

  const Attribute* find(std::string_view name) const;
};
// The attribute itself, or the one it refers to; null if the call does not have it.
const Attribute* resolve(const Attribute& attribute, const CallAttributes* call);

// The state shared by all scopes of one import.
struct ImportState {
  const Model& model;
  Program& program;
  InputSymbols symbols;
  // One literal per tensor of the file, shared by modules.
  std::unordered_map<const TensorData*, LiteralRef> literals{};
  std::unordered_set<const Value*> named{};              // values with a name from the file
  std::unordered_map<const Module*, Value*> counters{};  // random_numbers.h

  LiteralRef literal_of(const TensorData& tensor);
};

// The names of one graph or function body. Subgraphs are closed modules: an outer name is a
// literal, which is repeated inside, or a parameter.
class Scope {
 public:
  Scope(ImportState& import_state, Module& into, const OpsetImports& opsets,
        const CallAttributes* call_attributes, Scope* around)
      : state(import_state), module(into), imports(opsets), call(call_attributes), outer(around) {}

  ImportState& state;
  Module& module;
  const OpsetImports& imports;
  const CallAttributes* call;
  Scope* outer;  // null: main graph or function body

  void define(std::string_view name, Value* value) { values_[name] = value; }
  void define(const TensorData& initializer) { initializers_[initializer.name] = &initializer; }
  bool defines(std::string_view name) const {
    return values_.contains(name) || initializers_.contains(name);
  }
  const TensorData* initializer(std::string_view name) const {
    const auto tensor = initializers_.find(name);
    return tensor == initializers_.end() ? nullptr : tensor->second;
  }
  // The value that a node or parameter of this scope defines; else null.
  const Value* computed(std::string_view name) const {
    const auto value = values_.find(name);
    return value == values_.end() ? nullptr : value->second;
  }
  // The value in this scope's module; null for a function's input that its call omits.
  Value* find(std::string_view name);
  // The literal of a name here or in an outer scope, else null.
  LiteralRef find_literal(std::string_view name);

 private:
  bool is_absent(std::string_view name) const;

  std::unordered_map<std::string_view, Value*> values_;
  std::unordered_map<std::string_view, const TensorData*> initializers_;
};

// The names that the graphs use but do not define, in order of use, each once.
std::vector<std::string_view> free_names(const std::vector<const Graph*>& graphs);

}  // namespace lathe::onnx
