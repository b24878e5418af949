// SPDX-License-Identifier: MIT
#include "ir/dot.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"
#include "ir/op.h"

namespace lathe {
namespace {

// Escapes text for a double-quoted DOT string.
std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : escape(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

bool is_literal(const Value& value) {
  return value.definition() != nullptr && value.definition()->literal() != nullptr;
}

class DotPrinter {
 public:
  std::string print(const Program& program) {
    out_ = fmt::format(
        "digraph \"{}\" {{\n  node [shape=box, style=rounded, fontname=\"sans-serif\", "
        "fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8];\n",
        dot_text(program.name));
    for (const auto& module : program.modules()) print_module(*module);
    for (const auto& module : program.modules()) {
      for (const auto& instruction : module->instructions()) print_edges(*instruction);
      for (size_t i = 0; i < module->results().size(); ++i) {
        print_edge(*module->results()[i], result_id(*module, i));
      }
    }
    return out_ + "}\n";
  }

 private:
  std::string id_of(const void* object) {
    const auto [at, added] = ids_.try_emplace(object, ids_.size());
    return fmt::format("n{}", at->second);
  }
  std::string source_id(const Value& value) {
    return value.definition() != nullptr ? id_of(value.definition()) : id_of(&value);
  }
  std::string result_id(const Module& module, size_t index) {
    return fmt::format("{}_r{}", id_of(&module), index);
  }

  void print_module(const Module& module) {
    out_ += fmt::format("  subgraph \"cluster_{}\" {{\n    label=\"{}\";\n", id_of(&module),
                        dot_text(module.name()));
    for (const auto& parameter : module.parameters()) {
      out_ += fmt::format("    {} [label=\"{}\\n{}\", shape=ellipse];\n", id_of(parameter.get()),
                          dot_text(parameter->name()), dot_text(parameter->type().to_string()));
    }
    for (const auto& instruction : module.instructions()) {
      if (instruction->literal() != nullptr) continue;
      out_ +=
          fmt::format("    {} [label=\"{}\"{}];\n", id_of(instruction.get()), label(*instruction),
                      instruction->deferred() ? ", style=\"rounded,dashed\"" : "");
    }
    for (size_t i = 0; i < module.results().size(); ++i) {
      const bool is_named = i < module.result_names().size() && !module.result_names()[i].empty();
      const std::string& name = is_named ? module.result_names()[i] : module.results()[i]->name();
      out_ += fmt::format("    {} [label=\"{}\", shape=ellipse];\n", result_id(module, i),
                          dot_text(name));
    }
    out_ += "  }\n";
  }

  std::string label(const Instruction& instruction) const {
    std::string text(instruction.op().name);
    for (const auto& [name, value] : instruction.attributes()) {
      const AttributeSpec* spec = instruction.op().find_attribute_spec(name);
      const bool is_default = spec != nullptr && spec->has_fallback && spec->fallback == value;
      if (!is_default) text += fmt::format("\\n{} = {}", name, dot_text(to_string(value)));
    }
    for (const Value* operand : instruction.operands()) {
      if (operand == nullptr || !is_literal(*operand)) continue;
      text +=
          fmt::format("\\n{} {}", dot_text(operand->name()), dot_text(operand->type().to_string()));
    }
    for (const Module* body : instruction.bodies()) text += "\\n@" + dot_text(body->name());
    return text;
  }

  void print_edges(const Instruction& instruction) {
    for (const Value* operand : instruction.operands()) {
      if (operand == nullptr || is_literal(*operand)) continue;
      print_edge(*operand, id_of(&instruction));
    }
  }

  void print_edge(const Value& from, const std::string& to) {
    if (is_literal(from)) {
      // print_module skips literals, so a literal that is a module result requires a node here.
      out_ += fmt::format("  {} [label=\"{}\\n{}\"];\n", source_id(from), dot_text(from.name()),
                          dot_text(from.type().to_string()));
    }
    out_ += fmt::format("  {} -> {} [label=\"{}\"];\n", source_id(from), to,
                        dot_text(from.type().to_string()));
  }

  std::string out_;
  std::unordered_map<const void*, size_t> ids_;
};

}  // namespace

std::string to_dot(const Program& program) { return DotPrinter().print(program); }

}  // namespace lathe
