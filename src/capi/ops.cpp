// SPDX-License-Identifier: MIT
// The list of ops and their descriptions.
#include "capi/attributes_json.h"
#include "capi/handles.h"

namespace lathe::capi {
namespace {

using Json = nlohmann::ordered_json;

std::string_view meaning_of(const Op& op) {
  if (op.structural != Structural::none) return "structural";
  if (op.formula != nullptr) return "formula";
  return op.expand != nullptr ? "expansion" : "evaluation";
}

Json types_of(const OperandSpec& operand) {
  Json out = Json::array();
  if (operand.any_kind || operand.kind != Type::Kind::tensor) return out;
  for (const ElementTypeInfo& known : element_types()) {
    if ((operand.types & type_bit(known.type)) != 0) out.push_back(std::string(known.name));
  }
  return out;
}

Json json_of(const Op& op) {
  Json operands = Json::array();
  for (const OperandSpec& operand : op.operands) {
    operands.push_back({{"name", std::string(operand.name)},
                        {"types", types_of(operand)},
                        {"optional", operand.arity == Arity::optional},
                        {"variadic", operand.arity == Arity::variadic}});
  }
  Json attributes = Json::array();
  for (const AttributeSpec& attribute : op.attributes) {
    attributes.push_back({{"name", std::string(attribute.name)},
                          {"kind", std::string(kind_name(attribute.kind))},
                          {"required", attribute.required}});
    if (attribute.has_fallback) attributes.back()["default"] = to_json(attribute.fallback);
  }
  Json bodies = Json::array();
  for (const std::string_view body : op.bodies) bodies.push_back(std::string(body));
  return {{"name", std::string(op.name)},
          {"doc", std::string(op.doc)},
          {"meaning", std::string(meaning_of(op))},
          {"operands", std::move(operands)},
          {"attributes", std::move(attributes)},
          {"results", op.results},
          {"bodies", std::move(bodies)}};
}

const char* op_name(size_t index) {
  const std::vector<const Op*> all = all_ops();
  return index < all.size() ? all[index]->name.data() : nullptr;  // they end with a zero byte
}

lathe_error* describe(const char* name, lathe_text_sink sink, void* context) {
  return guarded([&] {
    const Op& op = get_op(&demand(name, "name"));
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    const std::string text = json_of(op).dump();
    sink(context, text.data(), text.size());
  });
}

}  // namespace

void add_ops(lathe_api& api) {
  api.op_count = [] { return all_ops().size(); };
  api.op_name = op_name;
  api.op_describe = describe;
}

}  // namespace lathe::capi
