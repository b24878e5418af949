// SPDX-License-Identifier: MIT
#include "import/onnx/support.h"

#include <nlohmann/json.hpp>

#include "import/onnx/operator_table.h"

namespace lathe::onnx {
namespace {

using Json = nlohmann::ordered_json;

// The union of the types that the ops accept as operand `index`.
Json operand_json(const std::vector<const Op*>& ops, size_t index) {
  TypeSet types = 0;
  for (const Op* op : ops) {
    if (index >= op->operands.size()) continue;
    const OperandSpec& operand = op->operands[index];
    if (operand.any_kind || operand.kind != Type::Kind::tensor) return {"any value"};
    types |= operand.types;
  }
  Json list = Json::array();
  for (const ElementTypeInfo& known : element_types()) {
    if ((types & type_bit(known.type)) != 0) list.push_back(known.name);
  }
  return list;
}

Json row_json(const OperatorRow& row) {
  const std::vector<const Op*> ops = ops_of(row);
  Json json{{"domain", row.domain},
            {"operator", row.op_type},
            {"since", row.since},
            {"op", ops.empty() ? Json() : Json(ops.front()->name)},
            {"supported", is_supported(row)},
            {"plain", row.import == nullptr}};
  size_t count = 0;
  bool variadic = false;
  for (const Op* op : ops) {
    count = std::max(count, op->operands.size());
    variadic |= !op->operands.empty() && op->operands.back().arity == Arity::variadic;
  }
  Json operands = Json::array();
  for (size_t i = 0; i < count; ++i) operands.push_back(operand_json(ops, i));
  json["operands"] = std::move(operands);
  json["variadic"] = variadic;
  if (is_supported(row)) {
    json["inputs"] = inputs_of(row).most;
    json["required"] = inputs_of(row).required;
  }
  return json;
}

}  // namespace

std::string support_json() {
  Json list = Json::array();
  for (const OperatorRow& row : operator_rows()) list.push_back(row_json(row));
  return list.dump(1) + "\n";
}

}  // namespace lathe::onnx
