// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "cli/commands.h"
#include "import/onnx/support.h"
#include "ir/op.h"

namespace lathe::cli {
namespace {

std::string types_text(TypeSet set) {
  if (set == kAnyType) return "any";
  std::string text;
  for (const ElementTypeInfo& known : element_types()) {
    if ((set & type_bit(known.type)) == 0) continue;
    text += (text.empty() ? "" : " ") + std::string(known.name);
  }
  return text;
}

std::string operand_text(const OperandSpec& operand) {
  std::string text(operand.name);
  if (operand.arity == Arity::optional) text += '?';
  if (operand.arity == Arity::variadic) text += "...";
  return text;
}

std::string kind_text(const Op& op) {
  if (op.structural != Structural::none) return "structural";
  if (op.formula != nullptr) return "formula";
  return op.expand != nullptr ? "expansion" : "reference evaluation";
}

// "conv(x, weight, bias?)"
std::string signature(const Op& op) {
  std::vector<std::string> operands;
  for (const OperandSpec& operand : op.operands) operands.push_back(operand_text(operand));
  return fmt::format("{}({})", op.name, fmt::join(operands, ", "));
}

std::string attribute_text(const AttributeSpec& attribute) {
  std::string text = fmt::format("{}: {}", attribute.name, to_string(attribute.kind));
  if (attribute.has_fallback) return text + " = " + to_string(attribute.fallback);
  return text + (attribute.required ? "" : " (may be absent)");
}

void print_op(const Op& op, Output& out) {
  out.write(fmt::format("{}\n  {}\n  meaning: {}\n", signature(op), op.doc, kind_text(op)));
  if (!op.operands.empty()) out.write("operands:\n");
  for (const OperandSpec& operand : op.operands) {
    out.write(fmt::format("  {}: {}\n", operand_text(operand),
                          operand.any_kind || operand.kind != Type::Kind::tensor
                              ? "any value"
                              : types_text(operand.types)));
  }
  if (!op.attributes.empty()) out.write("attributes:\n");
  for (const AttributeSpec& attribute : op.attributes) {
    out.write(fmt::format("  {}\n", attribute_text(attribute)));
  }
  if (op.results != 1) {
    out.write(op.results < 0 ? std::string("results: as many as asked for\n")
                             : fmt::format("results: {}\n", op.results));
  }
  if (!op.bodies.empty()) out.write(fmt::format("bodies: {}\n", fmt::join(op.bodies, ", ")));
}

std::string markdown() {
  std::string out =
      "# Ops\n\nMade by `lathe ops --markdown`. What an op means is one of: a formula of its "
      "elements, an\n"
      "expansion into simpler ops, a reference evaluation, or structure that the executor "
      "knows.\n\n"
      "| op | meaning | attributes | |\n|---|---|---|---|\n";
  for (const Op* op : all_ops()) {
    std::string attributes;
    for (const AttributeSpec& attribute : op->attributes) {
      attributes += (attributes.empty() ? "`" : "<br>`") + attribute_text(attribute) + '`';
    }
    out += fmt::format("| `{}` | {} | {} | {} |\n", signature(*op), kind_text(*op), attributes,
                       op->doc);
  }
  return out;
}

}  // namespace

int ops(CommandLine& line) {
  std::string name;
  bool as_markdown = false;
  bool as_onnx = false;
  line.positional("OP", name, "The op to describe; without it, all are listed.", true);
  line.flag("--markdown", as_markdown, "Prints docs/ops.md.");
  line.flag("--onnx", as_onnx, "Prints how ONNX's operators are imported, as JSON.");
  if (!line.parse()) return 0;
  if (as_markdown) {
    line.out().write(markdown());
  } else if (as_onnx) {
    line.out().write(onnx::support_json());
  } else if (!name.empty()) {
    print_op(get_op(name), line.out());
  } else {
    for (const Op* op : all_ops()) {
      line.out().write(fmt::format("{:<24} {}\n", op->name, op->doc));
    }
  }
  return 0;
}

}  // namespace lathe::cli
