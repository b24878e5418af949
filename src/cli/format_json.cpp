// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "cli/formats.h"
#include "ir/op.h"
#include "ir/print.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::ordered_json;

Json value_json(const Value& value) {
  return {{"name", value.name()}, {"type", value.type().to_string()}};
}

Json attribute_json(const Attribute& value) {
  switch (kind_of(value)) {
    case AttributeKind::integer:
      return std::get<int64_t>(value);
    case AttributeKind::number:
      return std::get<double>(value);
    case AttributeKind::boolean:
      return std::get<bool>(value);
    case AttributeKind::text:
      return std::get<std::string>(value);
    case AttributeKind::integers:
      return std::get<Integers>(value);
    case AttributeKind::numbers:
      return std::get<Numbers>(value);
    case AttributeKind::texts:
      return std::get<Texts>(value);
    default:
      return to_string(value);
  }
}

Json literal_json(const Literal& literal) {
  Json json{
      {"bytes", literal.tensor.type() == ElementType::string ? 0 : literal.tensor.byte_size()}};
  if (!literal.file.empty()) {
    json["file"] = literal.file;
    json["offset"] = literal.offset;
  }
  return json;
}

Json instruction_json(const Instruction& instruction) {
  Json json{{"op", instruction.op().name}};
  Json operands = Json::array();
  for (const Value* operand : instruction.operands()) {
    operands.push_back(operand == nullptr ? Json() : Json(operand->name()));
  }
  json["operands"] = std::move(operands);
  Json results = Json::array();
  for (const Value& result : instruction.results()) results.push_back(value_json(result));
  json["results"] = std::move(results);
  Json attributes = Json::object();
  for (const auto& [name, value] : instruction.attributes()) {
    attributes[name] = attribute_json(value);
  }
  json["attributes"] = std::move(attributes);
  for (const Module* body : instruction.bodies()) json["bodies"].push_back(body->name());
  if (instruction.literal() != nullptr) json["literal"] = literal_json(*instruction.literal());
  for (const Origin& origin : instruction.origins()) {
    json["origins"].push_back({{"file", origin.file},
                               {"node", origin.node},
                               {"op_type", origin.op_type},
                               {"index", origin.index}});
  }
  for (const SymbolRef& symbol : instruction.found()) json["found"].push_back(symbol->name);
  if (instruction.deferred()) json["deferred"] = true;
  return json;
}

Json module_json(const Module& module) {
  Json json{{"name", module.name()}};
  Json parameters = Json::array();
  for (const auto& parameter : module.parameters()) parameters.push_back(value_json(*parameter));
  json["parameters"] = std::move(parameters);
  Json guards = Json::array();
  for (const Guard& guard : module.guards()) guards.push_back(print(guard));
  json["guards"] = std::move(guards);
  Json instructions = Json::array();
  for (const auto& instruction : module.instructions()) {
    instructions.push_back(instruction_json(*instruction));
  }
  json["instructions"] = std::move(instructions);
  Json results = Json::array();
  for (size_t i = 0; i < module.results().size(); ++i) {
    results.push_back({{"name", module.result_names()[i]}, {"value", module.results()[i]->name()}});
  }
  json["results"] = std::move(results);
  return json;
}

Json symbol_json(const Symbol& symbol) {
  Json json{{"name", symbol.name}, {"kind", to_string(symbol.kind)}};
  json["min"] = symbol.range.min == -kUnbounded ? Json() : Json(symbol.range.min);
  json["max"] = symbol.range.max == kUnbounded ? Json() : Json(symbol.range.max);
  if (!symbol.preferred.empty()) json["preferred"] = symbol.preferred;
  return json;
}

}  // namespace

std::string program_json(const Program& program) {
  Json json{{"name", program.name}, {"stage", to_string(program.stage)}};
  json["metadata"] = program.metadata;
  Json symbols = Json::array();
  for (const auto& [name, symbol] : program.symbols()) symbols.push_back(symbol_json(*symbol));
  json["symbols"] = std::move(symbols);
  Json states = Json::array();
  for (const State& state : program.states()) {
    states.push_back({{"name", state.name},
                      {"kind", to_string(state.kind)},
                      {"type", state.type.to_string()},
                      {"input", state.input},
                      {"output", state.output}});
  }
  json["states"] = std::move(states);
  Json modules = Json::array();
  for (const auto& module : program.modules()) modules.push_back(module_json(*module));
  json["modules"] = std::move(modules);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lathe::cli
