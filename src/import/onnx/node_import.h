// SPDX-License-Identifier: MIT
// The context of a function that imports one kind of node.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "import/onnx/scope.h"
#include "ir/builder.h"

namespace lathe::onnx {

// Emitted instructions must be valid for every size: the types of a loop body's parameters are
// final only after its nodes are imported. Ranks, element types and literals are final.
class NodeImport {
 public:
  NodeImport(Scope& scope, const Node& node, int version, const Op* op);

  const Node& node;
  const int version;  // of the node's domain, from the model's opset imports
  // The name of the operator's op in the table.
  std::string_view op() const { return op_->name; }
  Builder b;

  // Inputs, without trailing absent ones.
  int count() const { return static_cast<int>(operands_.size()); }
  bool has(int i) const { return i < count() && operands_[static_cast<size_t>(i)] != nullptr; }
  Value* in(int i) const;  // InvalidModel if absent
  Value* in_or_null(int i) const { return has(i) ? operands_[static_cast<size_t>(i)] : nullptr; }
  const std::vector<Value*>& inputs() const { return operands_; }  // null: absent
  ElementType element(int i) const { return in(i)->type().element; }
  // Unsupported if the rank is unknown.
  int rank(int i) const;
  // The tensor of a literal input.
  std::optional<Tensor> literal(int i) const;
  Value* constant(const TensorData& tensor);
  Value* random_counter();  // random_numbers.h

  // Attributes. An attribute that is neither read by name nor in the op's record is an error.
  bool has_attribute(std::string_view name);
  int64_t integer(std::string_view name, std::optional<int64_t> fallback = std::nullopt);
  double number(std::string_view name, std::optional<double> fallback = std::nullopt);
  std::string_view text(std::string_view name,
                        std::optional<std::string_view> fallback = std::nullopt);
  Integers integers(std::string_view name, std::optional<Integers> fallback = std::nullopt);
  Numbers numbers(std::string_view name, std::optional<Numbers> fallback = std::nullopt);
  Texts texts(std::string_view name, std::optional<Texts> fallback = std::nullopt);
  const TensorData& tensor(std::string_view name);
  const Graph& graph(std::string_view name);
  const ValueType& type(std::string_view name);
  ElementType element_type(std::string_view name);  // from a TensorProto.DataType
  void ignore(std::initializer_list<std::string_view> names);
  // Converts the node's attributes that `op` has by the same name, ignoring case and underscores,
  // except those in `without`.
  Attributes record_attributes(const Op& op, const Attributes& without = {});

  // Outputs. An unused one may be omitted or set to any value.
  int outputs() const { return static_cast<int>(node.outputs.size()); }
  bool is_used(int i) const {
    return i < outputs() && !node.outputs[static_cast<size_t>(i)].empty();
  }
  void out(int i, Value* value);
  // Emits one instruction with the node's remaining attributes; its results are the node's outputs.
  Instruction* plain(std::string_view op, std::vector<Value*> operands, Attributes extra = {},
                     std::vector<Module*> bodies = {});
  Instruction* plain(std::vector<Value*> operands, Attributes extra = {}) {
    return plain(op(), std::move(operands), std::move(extra));
  }

  // Subgraphs.
  struct Capture {
    std::string_view name;
    Value* value;
  };
  // Values that graphs use from enclosing graphs, without literals, each once; first the random
  // counter, if a node draws random numbers.
  std::vector<Capture> captures(const std::vector<const Graph*>& graphs);
  // A closed module: parameters of these types for the graph's inputs, then one per capture. The
  // first `counters` are scalars that the graph may declare with shape [1].
  Module* body(const Graph& graph, std::string_view name, const std::vector<Type>& inputs,
               const std::vector<Capture>& captures, size_t counters = 0);
  // Imports the graph's nodes into `module` with these values for its inputs and captures.
  std::vector<Value*> inline_graph(Module& module, const Graph& graph,
                                   const std::vector<Value*>& inputs,
                                   const std::vector<Capture>& captures);

  template <class First, class... Rest>
  [[noreturn]] void fail(fmt::format_string<First, Rest...> format, First&& first,
                         Rest&&... rest) const {
    lathe::fail(ErrorKind::invalid_model, format, std::forward<First>(first),
                std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
  void check(bool condition, fmt::format_string<First, Rest...> format, First&& first,
             Rest&&... rest) const {
    lathe::check(condition, ErrorKind::invalid_model, format, std::forward<First>(first),
                 std::forward<Rest>(rest)...);
  }
  // Unsupported: a valid combination that Lathe does not implement.
  template <class First, class... Rest>
  void supported(bool condition, fmt::format_string<First, Rest...> format, First&& first,
                 Rest&&... rest) const {
    lathe::check(condition, ErrorKind::unsupported, format, std::forward<First>(first),
                 std::forward<Rest>(rest)...);
  }

  // InvalidModel for attributes that were not read.
  void check_attributes() const;

 private:
  const Attribute* find(std::string_view name);
  template <class T>
  const T* get(std::string_view name, Attribute::Kind kind);
  template <class T>
  const T& need(const T* value, std::string_view name) const;
  lathe::Attribute convert(const Attribute& attribute, const AttributeSpec& spec) const;

  Scope& scope_;
  const Op* op_;  // null if the operator has no op of its own
  std::vector<Value*> operands_;
  std::set<std::string_view> read_names_;  // attribute names
};

// Imports nodes in order. The importer defines it; subgraphs and function bodies call it.
void import_nodes(Scope& scope, const std::vector<Node>& nodes);

// A key that is equal for "ReduceL2", "reduce_l2" and "reduceL2".
std::string squash(std::string_view name);
// The op whose name has the same key; null for an unknown one.
const Op* find_op_alike(std::string_view name);

}  // namespace lathe::onnx
