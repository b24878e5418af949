// SPDX-License-Identifier: MIT
#include "ir/print.h"

#include "base/quote.h"
#include "ir/lexer.h"
#include "ir/literal_text.h"
#include "ir/op.h"
#include "ir/ops.h"

namespace lathe {
namespace {

std::string value_text(const Value* value) {
  return value == nullptr ? "_" : "%" + name_text(value->name());
}

std::string module_text(const Module* module) { return "@" + name_text(module->name()); }

std::string symbol_text(const SymbolRef& symbol) { return Dim(symbol).to_string(); }

std::string bound_text(int64_t bound) {
  return bound == kUnbounded || bound == -kUnbounded ? "*" : fmt::format("{}", bound);
}

template <class Items, class F>
std::string joined(const Items& items, F&& text) {
  std::string out;
  for (const auto& item : items) (out += out.empty() ? "" : ", ") += text(item);
  return out;
}

int64_t literal_bytes(const Tensor& tensor) {
  if (tensor.type() != ElementType::string) return tensor.byte_size();
  int64_t bytes = 0;
  for (const std::string& text : tensor.dense().elements<std::string>()) {
    bytes += static_cast<int64_t>(text.size()) + 2;
  }
  return bytes;
}

std::string literal_text(const Instruction& instruction, const PrintOptions& options) {
  const LiteralRef& literal = instruction.literal();
  if (literal == nullptr) return "literal";
  const Tensor& tensor = literal->tensor;
  std::string out = fmt::format("literal {}{} ", literal->bindable ? "bindable " : "",
                                to_string(tensor.type(), tensor.dims()));
  if (prints_as_hash(instruction, options)) return out + fmt::format("#{:016x}", literal->hash());
  if (literal_bytes(tensor) <= options.inline_bytes) return out + '{' + elements_text(tensor) + '}';
  return out + fmt::format("file {} offset {}", quote(literal->file), literal->offset);
}

// "{axis = 1, then = @then_0}", or "" if all values are defaults.
std::string braces_text(const Instruction& instruction) {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, value);
  };
  const Op& op = instruction.op();
  for (const auto& [name, value] : instruction.attributes()) {
    const AttributeSpec* spec = op.find_attribute_spec(name);
    const bool is_default =
        spec != nullptr && spec->has_fallback && to_string(spec->fallback) == to_string(value);
    if (!is_default) add(name, to_string(value));
  }
  for (size_t i = 0; i < instruction.bodies().size(); ++i) {
    const std::string_view name = i < op.bodies.size() ? op.bodies[i] : "body";
    add(name, module_text(instruction.bodies()[i]));
  }
  return out.empty() ? out : " {" + out + '}';
}

std::string origins_text(const Instruction& instruction) {
  const std::string& program_name = instruction.module()->program().name;
  return joined(instruction.origins(), [&](const Origin& origin) {
    std::string out = quote(origin.node) + ' ';
    out += is_word(origin.op_type) ? origin.op_type : quote(origin.op_type);
    if (origin.index != -1) out += fmt::format(" {}", origin.index);
    if (origin.file != program_name) out += " in " + quote(origin.file);
    return out;
  });
}

std::string state_text(const State& state) {
  std::string out = fmt::format("state @{} : {} {}", name_text(state.name), state.type.to_string(),
                                to_string(state.kind));
  if (state.axis != -1) out += fmt::format(" axis {}", state.axis);
  if (state.window != 0) out += fmt::format(" window {}", state.window);
  if (state.paged) out += " paged";
  if (!state.input.empty()) out += " input " + quote(state.input);
  if (!state.output.empty()) out += " output " + quote(state.output);
  return out;
}

std::string result_text(const Module& module, size_t index) {
  const auto& names = module.result_names();
  std::string out = value_text(module.results()[index]);
  if (index < names.size() && !names[index].empty()) out += " as " + quote(names[index]);
  return out;
}

void print_module(const Module& module, const PrintOptions& options, std::string_view indent,
                  std::string& out) {
  const auto line = [&](std::string_view text) { out += fmt::format("{}  {}\n", indent, text); };
  const std::string parameters = joined(module.parameters(), [](const auto& parameter) {
    return value_text(parameter.get()) + ": " + parameter->type().to_string();
  });
  out += fmt::format("{}module {}({}) {{\n", indent, module_text(&module), parameters);
  for (const Guard& guard : module.guards()) line(print(guard));
  for (const auto& instruction : module.instructions()) line(print(*instruction, options));
  std::string results;
  for (size_t i = 0; i < module.results().size(); ++i) {
    results += (i > 0 ? ", " : " ") + result_text(module, i);
  }
  line("return" + results);
  out += fmt::format("{}}}\n", indent);
}

}  // namespace

bool prints_as_hash(const Instruction& instruction, const PrintOptions& options) {
  const LiteralRef& literal = instruction.literal();
  return literal != nullptr && literal->file.empty() &&
         literal_bytes(literal->tensor) > options.inline_bytes;
}

std::string print(const Guard& guard) {
  const bool is_requirement = guard.kind == Guard::Kind::requirement;
  std::string out = is_requirement ? "require " : "assume ";
  const std::string a = guard.a.to_string();
  const std::string b = guard.b.to_string();
  switch (guard.relation) {
    case Guard::Relation::equal:
      out += a + " == " + b;
      break;
    case Guard::Relation::less_equal:
      out += a + " <= " + b;
      break;
    case Guard::Relation::broadcast:
      out += fmt::format("broadcast({}, {})", a, b);
      break;
  }
  return out + ": " + quote(guard.reason);
}

std::string print(const Instruction& instruction, const PrintOptions& options) {
  std::string out = joined(instruction.results(), [](const Value& v) { return value_text(&v); });
  if (!out.empty()) out += " = ";
  if (instruction.deferred()) out += "deferred ";
  if (instruction.op().structural == Structural::literal) {
    if (!instruction.operands().empty()) {
      out += fmt::format("pack({}){} as ", joined(instruction.operands(), value_text),
                         braces_text(instruction));
    }
    out += literal_text(instruction, options);
  } else {
    out += fmt::format("{}({}){}", instruction.op().name,
                       joined(instruction.operands(), value_text), braces_text(instruction));
    if (!instruction.found().empty()) out += " found " + joined(instruction.found(), symbol_text);
    if (instruction.implements() != nullptr) {
      out += " implements " + module_text(instruction.implements());
    }
    if (!instruction.target().empty()) out += " on " + name_text(instruction.target());
    if (!instruction.results().empty()) {
      out += " : " + joined(instruction.results(), [](const Value& v) {
               std::string text = v.type().to_string();
               if (!v.layout().empty()) {
                 text += fmt::format(" layout [{}]", fmt::join(v.layout(), ", "));
               }
               return text;
             });
    }
  }
  if (options.origins && !instruction.origins().empty()) {
    out += "  from " + origins_text(instruction);
  }
  return out;
}

std::string print(const Module& module, const PrintOptions& options) {
  std::string out;
  print_module(module, options, "", out);
  return out;
}

std::string print(const Program& program, const PrintOptions& options) {
  std::string out =
      fmt::format("program {} stage {} {{\n", quote(program.name), to_string(program.stage));
  for (const auto& [key, value] : program.metadata) {
    out += fmt::format("  meta {} = {}\n", quote(key), quote(value));
  }
  for (const auto& [name, symbol] : program.symbols()) {
    out += fmt::format("  symbol {} {} {}..{}", symbol_text(symbol), to_string(symbol->kind),
                       bound_text(symbol->range.min), bound_text(symbol->range.max));
    if (!symbol->preferred.empty()) {
      out += fmt::format(" preferred {}", fmt::join(symbol->preferred, ", "));
    }
    out += '\n';
  }
  for (const State& state : program.states()) out += "  " + state_text(state) + '\n';
  for (const auto& module : program.modules()) {
    out += '\n';
    print_module(*module, options, "  ", out);
  }
  return out + "}\n";
}

std::string op_text(const Instruction& instruction) {
  if (instruction.op() != ops::region) return std::string(instruction.op().name);
  std::string text;
  for (const auto& part : instruction.bodies()[0]->instructions()) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", part->op().name);
  }
  return text;
}

}  // namespace lathe
