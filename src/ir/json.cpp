// SPDX-License-Identifier: MIT
#include "ir/json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/op.h"
#include "ir/print.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

// nlohmann rejects strings that are not UTF-8: only those are escaped.
Json text_json(const std::string& text) {
  try {
    Json json = text;
    (void)json.dump();
    return json;
  } catch (const Json::type_error&) {
    return escape(text, text.size() * 4);
  }
}

Json bound_json(int64_t bound) {
  return bound == kUnbounded || bound == -kUnbounded ? Json(nullptr) : Json(bound);
}

Json value_json(const Value& value) {
  Json json{{"name", text_json(value.name())}, {"type", text_json(value.type().to_string())}};
  if (!value.layout().empty()) json["layout"] = value.layout();
  return json;
}

Json symbol_json(const Symbol& symbol) {
  return {{"name", text_json(symbol.name)},
          {"kind", to_string(symbol.kind)},
          {"min", bound_json(symbol.range.min)},
          {"max", bound_json(symbol.range.max)},
          {"preferred", symbol.preferred}};
}

Json state_json(const State& state) {
  Json json{{"name", text_json(state.name)},
            {"type", text_json(state.type.to_string())},
            {"kind", to_string(state.kind)}};
  if (state.axis >= 0) json["axis"] = state.axis;
  if (state.window != 0) json["window"] = state.window;
  if (state.paged) json["paged"] = true;
  if (!state.input.empty()) json["input"] = text_json(state.input);
  if (!state.output.empty()) json["output"] = text_json(state.output);
  return json;
}

Json guard_json(const Guard& guard) {
  const bool is_requirement = guard.kind == Guard::Kind::requirement;
  const std::string_view relation = guard.relation == Guard::Relation::equal        ? "=="
                                    : guard.relation == Guard::Relation::less_equal ? "<="
                                                                                    : "broadcast";
  return {{"kind", is_requirement ? "require" : "assume"},
          {"relation", relation},
          {"a", text_json(guard.a.to_string())},
          {"b", text_json(guard.b.to_string())},
          {"reason", text_json(guard.reason)}};
}

Json origin_json(const Origin& origin) {
  Json json{{"file", text_json(origin.file)},
            {"node", text_json(origin.node)},
            {"op_type", text_json(origin.op_type)}};
  if (origin.index >= 0) json["index"] = origin.index;
  return json;
}

Json literal_json(const Literal& literal) {
  Json json{
      {"bytes", literal.tensor.type() == ElementType::string ? 0 : literal.tensor.byte_size()},
      {"bindable", literal.bindable}};
  if (literal.file.empty()) {
    json["hash"] = fmt::format("{:016x}", literal.hash());
  } else {
    json["file"] = text_json(literal.file);
    json["offset"] = literal.offset;
  }
  return json;
}

Json instruction_json(const Instruction& instruction) {
  Json json{{"op", instruction.op().name}};
  for (const Value& result : instruction.results()) json["results"].push_back(value_json(result));
  json["operands"] = Json::array();
  for (const Value* operand : instruction.operands()) {
    json["operands"].push_back(operand == nullptr ? Json(nullptr) : text_json(operand->name()));
  }
  for (const auto& [name, value] : instruction.attributes()) {
    json["attributes"][name] = text_json(to_string(value));
  }
  for (size_t i = 0; i < instruction.bodies().size(); ++i) {
    json["bodies"][std::string(instruction.op().bodies[i])] =
        text_json(instruction.bodies()[i]->name());
  }
  for (const SymbolRef& symbol : instruction.found())
    json["found"].push_back(text_json(symbol->name));
  if (instruction.literal() != nullptr) json["literal"] = literal_json(*instruction.literal());
  if (instruction.deferred()) json["deferred"] = true;
  if (instruction.implements() != nullptr) {
    json["implements"] = text_json(instruction.implements()->name());
  }
  for (const Origin& origin : instruction.origins()) json["origins"].push_back(origin_json(origin));
  return json;
}

Json module_json(const Module& module) {
  Json json{{"name", text_json(module.name())},
            {"parameters", Json::array()},
            {"guards", Json::array()},
            {"instructions", Json::array()},
            {"results", Json::array()}};
  for (const auto& parameter : module.parameters()) {
    json["parameters"].push_back(value_json(*parameter));
  }
  for (const Guard& guard : module.guards()) json["guards"].push_back(guard_json(guard));
  for (const auto& instruction : module.instructions()) {
    json["instructions"].push_back(instruction_json(*instruction));
  }
  for (size_t i = 0; i < module.results().size(); ++i) {
    const bool is_named = i < module.result_names().size();
    json["results"].push_back({{"value", text_json(module.results()[i]->name())},
                               {"name", text_json(is_named ? module.result_names()[i] : "")}});
  }
  return json;
}

}  // namespace

std::string to_json(const Program& program) {
  Json json{{"name", text_json(program.name)}, {"stage", to_string(program.stage)},
            {"metadata", Json::object()},      {"symbols", Json::array()},
            {"states", Json::array()},         {"modules", Json::array()}};
  for (const auto& [key, value] : program.metadata) {
    json["metadata"][escape(key, key.size() * 4)] = text_json(value);
  }
  for (const auto& [name, symbol] : program.symbols())
    json["symbols"].push_back(symbol_json(*symbol));
  for (const State& state : program.states()) json["states"].push_back(state_json(state));
  for (const auto& module : program.modules()) json["modules"].push_back(module_json(*module));
  return json.dump(2);
}

}  // namespace lathe
