// SPDX-License-Identifier: MIT
#include "import/onnx/importer.h"

#include <bit>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "import/onnx/external_data.h"
#include "import/onnx/model_info.h"
#include "import/onnx/node_import.h"
#include "import/onnx/operator_table.h"
#include "import/onnx/random_numbers.h"
#include "import/onnx/unsupported.h"

namespace lathe::onnx {
namespace {

// Inlines a model-local function at its call.
void inline_function(Scope& scope, const Node& node, const Function& function) {
  check(node.inputs.size() <= function.inputs.size(), ErrorKind::invalid_model,
        "the call has {} inputs, '{}' takes {}", node.inputs.size(), escape(function.name),
        function.inputs.size());
  check(node.outputs.size() <= function.outputs.size(), ErrorKind::invalid_model,
        "the call has {} outputs, '{}' has {}", node.outputs.size(), escape(function.name),
        function.outputs.size());
  CallAttributes call{&function, &node, scope.call};
  for (const std::string_view name : function.attributes) {
    check(call.find(name) != nullptr, ErrorKind::invalid_model,
          "attribute '{}' is missing in this call of '{}'", escape(name), escape(function.name));
  }
  Scope inner(scope.state, scope.module, function.imports, &call, nullptr);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const bool given = i < node.inputs.size() && !node.inputs[i].empty();
    inner.define(function.inputs[i], given ? scope.find(node.inputs[i]) : nullptr);
  }
  try {
    import_nodes(inner, function.nodes);
  } catch (Error& error) {
    error.note(function_note(function));
    throw;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Value* value = inner.find(function.outputs[i]);
    check(value != nullptr, ErrorKind::invalid_model,
          "output '{}' of '{}' is an input that this call omits", escape(function.outputs[i]),
          escape(function.name));
    scope.define(node.outputs[i], value);
  }
}

// Ops check their own operands.
void check_inputs(const NodeImport& c, const OperatorRow& row) {
  const int most = inputs_of(row).most;
  c.check(c.count() <= most, "the node has {} inputs, {} takes {} at most", c.count(),
          escape(c.node.op_type), most);
  for (uint32_t left = row.required; left != 0; left &= left - 1) {
    static_cast<void>(c.in(std::countr_zero(left)));
  }
}

void import_node(Scope& scope, const Node& node) {
  const Function* function =
      scope.state.model.find_function(node.domain, node.op_type, node.overload);
  if (function != nullptr) {
    inline_function(scope, node, *function);
    return;
  }
  const int64_t version = opset_version(scope.imports, node.domain).value_or(1);
  const OperatorRow* row = find_operator(node.domain, node.op_type, version);
  check(row != nullptr, ErrorKind::internal, "'{}' was not reported as unsupported",
        escape(node.op_type));
  NodeImport context(scope, node, static_cast<int>(version), op_of(*row));
  check_inputs(context, *row);
  if (row->import != nullptr) {
    row->import(context);
  } else {
    context.plain(context.inputs());
  }
  context.check_attributes();
  for (const std::string_view output : node.outputs) {
    check(output.empty() || scope.defines(output), ErrorKind::unsupported,
          "output '{}' is not supported", escape(output));
  }
}

}  // namespace

void import_nodes(Scope& scope, const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    if (node.outputs.empty()) continue;  // nodes have no effects
    check_interrupt();
    const std::string place = node_note(scope.state.model.origin, scope.imports, node);
    try {
      import_node(scope, node);
    } catch (MissingData& error) {
      error.note(place);
      throw;
    } catch (Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) {
        error.note(place);
        throw;
      }
      // What a builder calls an argument comes from the model.
      Error wrong(ErrorKind::invalid_model, error.message());
      for (const std::string& note : error.notes()) wrong.note(note);
      throw wrong.note(place);
    }
  }
}

namespace {

// Declarations of computed values. InvalidModel if the kind or element type is another. Shapes are
// often wrong or out of date, and ONNX Runtime runs such files: the inferred ones are used.
class Declarations {
 public:
  void compare(const ValueInfo& declared, const Value& value) {
    const std::string differs = contradiction(declared.type, value.type());
    if (differs.empty()) return;
    const std::string text = fmt::format("'{}' is declared with {}, but is {}",
                                         escape(declared.name), differs, value.type().to_string());
    const bool constant = value.definition() != nullptr && value.definition()->literal() != nullptr;
    check(constant || !is_other_type(declared.type, value.type()), ErrorKind::invalid_model, "{}",
          text);
    log_line(1, text);
    if (!constant && wrong_++ == 0) first_ = text;
  }

  void warn(std::string_view origin) const {
    if (wrong_ == 0) return;
    log_warning(fmt::format("in {}: {}{}", escape(origin), first_,
                            wrong_ == 1 ? "" : fmt::format(" (and {} more)", wrong_ - 1)));
  }

 private:
  int wrong_ = 0;
  std::string first_;
};

Type type_of(const TensorData& tensor) {
  return Type::tensor(tensor.type, {tensor.dims.begin(), tensor.dims.end()});
}

// Checks an input's default against its declaration.
void check_default(const ValueInfo& input, const TensorData& tensor) {
  const Type type = type_of(tensor);
  const std::string differs = contradiction(input.type, type);
  check(differs.empty(), ErrorKind::invalid_model,
        "input '{}' is declared with {}, but its initialiser is {}", escape(input.name), differs,
        type.to_string());
}

// A model of a slightly newer opset is imported with the newest definitions of the table.
void check_opset(const Model& model) {
  int64_t version = opset_version(model.imports, "").value_or(0);
  for (const Function& function : model.functions) {
    version = std::max(version, opset_version(function.imports, "").value_or(0));
  }
  if (version <= kNewestOpset) return;
  check(version <= kNewestOpset + kNewerOpsets, ErrorKind::unsupported,
        "'{}' imports opset {}, expected at most {}", escape(model.origin), version, kNewestOpset);
  log_warning(fmt::format("'{}' imports opset {}: using the operator definitions of opset {}",
                          escape(model.origin), version, kNewestOpset));
}

void import_main(ImportState& state, const ImportOptions& options) {
  const Graph& graph = state.model.graph;
  Module& main = state.program.main();
  Scope scope(state, main, state.model.imports, nullptr, nullptr);
  for (const TensorData& tensor : graph.initializers) scope.define(tensor);
  for (const ValueInfo& input : graph.inputs) {
    if (const TensorData* fallback = scope.initializer(input.name)) {
      check_default(input, *fallback);
      // Old files list every initialiser as an input.
      if (!options.fed.contains(input.name)) {
        if (state.model.ir_version >= 4) {
          state.program.metadata[fmt::format("default of input {}", input.name)] =
              to_string(fallback->type, fallback->dims);
        }
        continue;
      }
    }
    Value* parameter =
        main.add_parameter(state.symbols.type_of(input.type, input.name), input.name);
    scope.define(input.name, parameter);
    state.named.insert(parameter);
  }
  for (const TensorData& tensor : graph.initializers) {
    if (!options.fed.contains(tensor.name) || scope.computed(tensor.name) != nullptr) continue;
    Value* parameter = main.add_parameter(type_of(tensor), tensor.name);
    scope.define(tensor.name, parameter);
    state.named.insert(parameter);
  }
  import_nodes(scope, graph.nodes);
  Declarations declarations;
  for (const ValueInfo& info : graph.value_infos) {
    const Value* value = scope.computed(info.name);
    if (value != nullptr) declarations.compare(info, *value);
  }
  std::vector<Value*> results;
  std::vector<std::string> names;
  for (const ValueInfo& output : graph.outputs) {
    Value* value = scope.find(output.name);
    // An If joined an empty optional with a value; the declared output is the value.
    if (value->type().kind == Type::Kind::optional &&
        output.type.kind != ValueType::Kind::optional &&
        output.type.kind != ValueType::Kind::unknown) {
      value = Builder(main)("optional_get_element", {value});
    }
    results.push_back(value);
    names.emplace_back(output.name);
    declarations.compare(output, *results.back());
  }
  declarations.warn(state.model.origin);
  main.set_results(std::move(results), std::move(names));
  finish_random_counter(state);
}

void copy_metadata(const Model& model, Program& program) {
  for (const auto& [key, value] : model.metadata) {
    program.metadata.emplace(std::string(key), std::string(value));
  }
  if (!model.producer.empty()) {
    program.metadata["producer"] =
        fmt::format("{}{}{}", model.producer, model.producer_version.empty() ? "" : " ",
                    model.producer_version);
  }
  for (const OpsetImport& import : model.imports) {
    const std::string_view domain = import.domain.empty() ? "ai.onnx" : import.domain;
    program.metadata[fmt::format("opset {}", domain)] = std::to_string(import.version);
  }
}

}  // namespace
}  // namespace lathe::onnx

namespace lathe {

std::unique_ptr<Program> import_onnx(const onnx::Model& model, const ImportOptions& options) {
  onnx::check_opset(model);
  onnx::check_supported(model);
  auto program = std::make_unique<Program>();
  program->name = model.origin;
  onnx::copy_metadata(model, *program);
  onnx::ImportState state{model, *program, onnx::InputSymbols(*program)};
  onnx::import_main(state, options);
  program->model = onnx::model_info(model, options);
  return program;
}

}  // namespace lathe
