// SPDX-License-Identifier: MIT
#include <map>

#include "base/error.h"
#include "base/os_process.h"
#include "cli/formats.h"
#include "ir/op.h"

namespace lathe::cli {
namespace {

// A DOT string with escaped quotes, backslashes and control characters.
std::string dot_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : escape(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

class DotWriter {
 public:
  std::string write(const Program& program) {
    out_ = fmt::format(
        "digraph {} {{\n  node [shape=box fontname=\"sans-serif\" fontsize=10];\n"
        "  edge [fontname=\"sans-serif\" fontsize=8];\n",
        dot_text(program.name));
    size_t cluster = 0;
    for (const auto& module : program.modules()) add_module(*module, cluster++);
    return out_ + "}\n";
  }

 private:
  void add_module(const Module& module, size_t cluster) {
    out_ += fmt::format("  subgraph cluster_{} {{\n    label={};\n", cluster,
                        dot_text("@" + module.name()));
    for (const auto& parameter : module.parameters()) {
      add_node(*parameter, dot_text(parameter->name()), "ellipse");
    }
    for (const auto& instruction : module.instructions()) add_instruction(*instruction);
    for (size_t i = 0; i < module.results().size(); ++i) {
      const int node = next_++;
      out_ += fmt::format("    n{} [label={} shape=ellipse style=bold];\n", node,
                          dot_text(module.result_names()[i]));
      add_edge(*module.results()[i], node);
    }
    out_ += "  }\n";
  }

  // Labels include the types of literal operands; literals have no node.
  void add_instruction(const Instruction& instruction) {
    if (instruction.literal() != nullptr) return;
    std::string label(instruction.op().name);
    for (const Module* body : instruction.bodies()) label += " @" + body->name();
    for (const Value* operand : instruction.operands()) {
      if (operand == nullptr || operand->definition() == nullptr ||
          operand->definition()->literal() == nullptr) {
        continue;
      }
      label += "  " + operand->type().to_string();
    }
    const int node = next_++;
    out_ += fmt::format("    n{} [label={}];\n", node, dot_text(label));
    for (const Value& result : instruction.results()) nodes_[&result] = node;
    for (const Value* operand : instruction.operands()) {
      if (operand != nullptr) add_edge(*operand, node);
    }
  }

  void add_node(const Value& value, const std::string& label, std::string_view shape) {
    nodes_[&value] = next_;
    out_ += fmt::format("    n{} [label={} shape={}];\n", next_++, label, shape);
  }

  void add_edge(const Value& value, int node) {
    const auto from = nodes_.find(&value);
    if (from == nodes_.end()) return;
    out_ += fmt::format("    n{} -> n{} [label={}];\n", from->second, node,
                        dot_text(value.type().to_string()));
  }

  std::string out_;
  std::map<const Value*, int> nodes_;
  int next_ = 0;
};

}  // namespace

std::string program_dot(const Program& program) { return DotWriter().write(program); }

std::string program_svg(const Program& program) {
  const std::string dot = program_dot(program);
  ProcessResult drawn = run_process({"dot", "-Tsvg"}, {.input = dot});
  check(drawn.started, ErrorKind::unsupported,
        "no SVG of '{}': the program 'dot' of Graphviz is not installed (apt-get install "
        "graphviz); --format dot does not require it",
        escape(program.name));
  check(drawn.code == 0, ErrorKind::unsupported, "Graphviz could not draw '{}': exit code {}",
        escape(program.name), drawn.code);
  return std::move(drawn.output);
}

}  // namespace lathe::cli
