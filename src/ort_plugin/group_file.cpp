// SPDX-License-Identifier: MIT
#include "ort_plugin/group_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "targets/save_program.h"

namespace lathe::ort_plugin {
namespace {

constexpr std::string_view kPlaces = "places";  // the file with what is not of the program

nlohmann::json read_places(const CompiledFile& file) {
  const MemoryFiles files = file.files();
  const auto places = files.find(kPlaces);
  check(places != files.end(), ErrorKind::invalid_model,
        "'{}' is a compiled file, but not of an execution provider", escape(file.name()));
  return parse_json(places->second.text, file.name());
}

[[noreturn]] void fail_with(const CompiledFile& file, const nlohmann::json::exception& error) {
  fail(ErrorKind::invalid_model, "'{}' has invalid places: {}", escape(file.name()),
       escape(error.what()));
}

// The places of program values, whose types must be those of the node's values.
std::vector<size_t> read_list(const nlohmann::json& places, const std::vector<Type>& types,
                              const std::vector<onnx::ValueInfo>& values,
                              const CompiledFile& file) {
  const auto out = places.get<std::vector<size_t>>();
  check(out.size() == types.size(), ErrorKind::invalid_model, "'{}' has {} places of {} values",
        escape(file.name()), out.size(), types.size());
  for (size_t i = 0; i < out.size(); ++i) {
    check(out[i] < values.size(), ErrorKind::invalid_model, "'{}' uses value {} of {}",
          escape(file.name()), out[i], values.size());
    const onnx::ValueInfo& value = values[out[i]];
    check(types[i].is_tensor() && value.type.element == types[i].element, ErrorKind::invalid_model,
          "'{}' has elements {} for '{}', expected {}", escape(file.name()),
          to_string(types[i].element), escape(value.name),
          value.type.element ? to_string(*value.type.element) : "others");
  }
  return out;
}

}  // namespace

void save_group(const GroupPlan& group, std::string_view digest,
                const std::function<void(std::string_view)>& write) {
  const std::string text = nlohmann::json{
      {"inputs", group.inputs},
      {"outputs", group.outputs},
      {"digest", digest}}.dump();
  save_programs({{std::string(kMainProgram), group.plan.get(), group.options}}, {},
                {{std::string(kPlaces), MemoryFile{text, nullptr}}}, write);
}

std::string digest_of(const CompiledFile& file) {
  try {
    return read_places(file).value("digest", "");
  } catch (const nlohmann::json::exception& error) {
    fail_with(file, error);
  }
}

GroupPlan load_group(const CompiledFile& file, const Boundary& node,
                     const CompileOptions& options) {
  GroupPlan group;
  group.options = options;
  std::unique_ptr<Program> program = file.program(kMainProgram);
  std::vector<Type> parameters;
  for (const auto& parameter : program->main().parameters()) {
    parameters.push_back(parameter->type());
  }
  std::vector<Type> results;
  for (const Value* result : program->main().results()) results.push_back(result->type());
  try {
    const nlohmann::json found = read_places(file);
    group.inputs = read_list(found.at("inputs"), parameters, node.inputs, file);
    group.outputs = read_list(found.at("outputs"), results, node.outputs, file);
  } catch (const nlohmann::json::exception& error) {
    fail_with(file, error);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    check(
        node.outputs[i].name.empty() || std::ranges::find(group.outputs, i) != group.outputs.end(),
        ErrorKind::invalid_model, "'{}' does not compute output '{}'", escape(file.name()),
        escape(node.outputs[i].name));
  }
  group.plan = lathe::compile(std::move(program), options);
  return group;
}

}  // namespace lathe::ort_plugin
