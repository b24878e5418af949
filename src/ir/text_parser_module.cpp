// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ir/ops.h"
#include "ir/text_parser.h"

namespace lathe {
namespace {

constexpr int kMaxBodyDepth = 64;

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (const Op* op : all_ops()) names.push_back(op->name);
  return names;
}

// The operand that equals a parameter of a body, or of the implemented module (body -1).
const Value* captured(const Instruction& owner, int body, int parameter) {
  int operand = parameter;
  if (body >= 0) {
    operand = owner.op().capture == nullptr ? -1 : owner.op().capture(owner, body, parameter);
  }
  const bool exists = operand >= 0 && operand < static_cast<int>(owner.operands().size());
  return exists ? owner.operands()[static_cast<size_t>(operand)] : nullptr;
}

}  // namespace

// Captured operands set the symbolic values of parameters before the body is inferred.
void TextParser::build(ModuleEntry& entry, size_t named_at, const Instruction* owner, int body) {
  if (entry.progress == Progress::built) return;
  if (entry.progress == Progress::building || depth_ == kMaxBodyDepth) {
    lexer_.fail_at(named_at, fmt::format("module '{}' {}", escape(entry.module->name()),
                                         depth_ == kMaxBodyDepth ? "is nested too deeply"
                                                                 : "contains itself"));
  }
  ++depth_;
  entry.progress = Progress::building;
  const size_t resume = lexer_.position();
  lexer_.seek(entry.offset);
  Scope scope{*entry.module, {}};
  parse_parameters(scope, owner, body);
  lexer_.expect("{", "after a module's parameters");
  while (!lexer_.accept("}")) {
    const Token& token = lexer_.peek();
    if (token.is("require") || token.is("assume")) {
      entry.module->add_guard(parse_guard());
    } else if (token.is("return")) {
      parse_return(scope);
      if (!lexer_.peek().is("}")) {
        lexer_.fail_at(lexer_.position(), fmt::format("expected '}}' after the results, found '{}'",
                                                      escape(lexer_.peek().text, 60)));
      }
    } else {
      parse_instruction(scope);
    }
  }
  lexer_.seek(resume);
  entry.progress = Progress::built;
  --depth_;
}

void TextParser::parse_parameters(Scope& scope, const Instruction* owner, int body) {
  lexer_.expect("(", "after a module's name");
  if (lexer_.accept(")")) return;
  do {
    const Token token = lexer_.expect(TokenKind::value, "a parameter's %name");
    const std::string name = lexer_.name_of(token);
    if (scope.values.contains(name)) {
      lexer_.fail_at(token.offset, fmt::format("'%{}' is defined twice", escape(name)));
    }
    lexer_.expect(":", "after a parameter's name");
    Value* parameter = scope.module.add_parameter(parse_type(), name);
    if (parameter->name() != name) {
      lexer_.fail_at(token.offset, fmt::format("'{}' is not a valid name", escape(token.text, 60)));
    }
    if (owner != nullptr) {
      const Value* operand = captured(*owner, body, parameter->index());
      if (operand != nullptr) parameter->set_elements(operand->elements());
    }
    scope.values.emplace(name, parameter);
  } while (lexer_.accept(","));
  lexer_.expect(")", "after a module's parameters");
}

Guard TextParser::parse_guard() {
  Guard guard;
  guard.kind = lexer_.take().is("require") ? Guard::Kind::requirement : Guard::Kind::assumption;
  const Token first = lexer_.peek();
  const size_t behind = first.offset + first.text.size();
  const bool is_call = behind < lexer_.text().size() && lexer_.text()[behind] == '(';
  if (first.is("broadcast") && is_call) {
    guard.relation = Guard::Relation::broadcast;
    lexer_.take();
    lexer_.expect("(", "after 'broadcast'");
    guard.a = parse_dim();
    lexer_.expect(",", "between the dims");
    guard.b = parse_dim();
    lexer_.expect(")", "after the dims");
  } else {
    guard.a = parse_dim();
    const bool is_equal = lexer_.accept("==");
    if (!is_equal) lexer_.expect("<=", "or '==' between the dims");
    guard.relation = is_equal ? Guard::Relation::equal : Guard::Relation::less_equal;
    guard.b = parse_dim();
  }
  lexer_.expect(":", "after the condition");
  guard.reason = parse_string("the reason in quotes");
  return guard;
}

std::vector<TextParser::WrittenResult> TextParser::parse_results(Scope& scope) {
  std::vector<WrittenResult> results;
  if (lexer_.peek().kind != TokenKind::value) return results;
  do {
    const Token token = lexer_.expect(TokenKind::value, "a result's %name");
    std::string name = lexer_.name_of(token);
    bool is_taken = name.empty() || scope.values.contains(name);
    for (const WrittenResult& other : results) is_taken |= other.name == name;
    if (is_taken) {
      lexer_.fail_at(token.offset, name.empty()
                                       ? fmt::format("{} is not a valid name", token.text)
                                       : fmt::format("'%{}' is defined twice", escape(name)));
    }
    results.push_back({token.offset, std::move(name)});
  } while (lexer_.accept(","));
  lexer_.expect("=", "after the results");
  return results;
}

void TextParser::parse_instruction(Scope& scope) {
  const size_t begin = lexer_.position();
  const std::vector<WrittenResult> results = parse_results(scope);
  const bool deferred = lexer_.accept("deferred");
  const Token name = lexer_.expect(TokenKind::word, "an op");
  // A literal with sources.
  const bool packs = name.text == "pack";
  const Op* op = packs ? &ops::literal : find_op(name.text);
  if (op == nullptr) {
    lexer_.fail_at(name.offset, fmt::format("unknown op '{}'{}", escape(name.text, 60),
                                            did_you_mean(name.text, op_names())));
  }
  if (packs && program_->stage != Stage::lowered) {
    lexer_.fail_at(name.offset, fmt::format("only lowered programs have packed weights, '{}' is {}",
                                            escape(program_->name), to_string(program_->stage)));
  }
  if (op->results >= 0 && static_cast<int>(results.size()) != op->results) {
    lexer_.fail_at(begin,
                   fmt::format("{} has {} results, got {}", op->name, op->results, results.size()));
  }
  Instruction* instruction = nullptr;
  if (op->structural == Structural::literal) {
    std::vector<Value*> sources;
    WrittenArguments written;
    if (packs) {
      sources = parse_operands(scope);
      written = parse_arguments(*op);
      lexer_.expect("as", "before the packed bytes");
      lexer_.expect("literal", "before the packed bytes");
    }
    LiteralRef literal = parse_literal();
    instruction = scope.module.insert(*op, std::move(sources), std::move(written.attributes), {},
                                      static_cast<int>(results.size()));
    instruction->set_literal(std::move(literal));
    name_results(scope, *instruction, results);
    infer_at(*instruction, name.offset);
  } else {
    std::vector<Value*> operands = parse_operands(scope);
    WrittenArguments written = parse_arguments(*op);
    complete(*op, written, name.offset);
    instruction = scope.module.insert(*op, std::move(operands), std::move(written.attributes),
                                      written.bodies, static_cast<int>(results.size()));
    parse_found(*instruction);
    for (size_t i = 0; i < written.bodies.size(); ++i) {
      build(modules_.find(written.bodies[i]->name())->second, name.offset, instruction,
            static_cast<int>(i));
    }
    if (lexer_.accept("implements")) {
      const Token token = lexer_.expect(TokenKind::module, "a module's @name");
      ModuleEntry& entry = find_module(token);
      instruction->set_implements(entry.module);
      build(entry, token.offset, instruction, -1);
    }
    if (lexer_.accept("on")) instruction->set_target(parse_name("a target's name"));
    name_results(scope, *instruction, results);
    infer_at(*instruction, name.offset);
    if (lexer_.accept(":")) compare_types(*instruction);
  }
  instruction->set_deferred(deferred);
  if (lexer_.accept("from")) parse_origins(*instruction);
}

// Renames the results, which insert() named, to their names in the text.
void TextParser::name_results(Scope& scope, Instruction& instruction,
                              const std::vector<WrittenResult>& results) {
  // A prefix longer than all new names: temporary names cannot collide with them.
  size_t longest = 0;
  for (const WrittenResult& result : results) longest = std::max(longest, result.name.size());
  for (size_t i = 0; i < results.size(); ++i) {
    scope.module.rename(instruction.result(static_cast<int>(i)), std::string(longest + 1, '~'));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    Value* value = instruction.result(static_cast<int>(i));
    scope.module.rename(value, results[i].name);
    scope.values.emplace(results[i].name, value);
  }
}

Value* TextParser::find_value(const Scope& scope, const Token& token) const {
  const std::string name = lexer_.name_of(token);
  const auto at = scope.values.find(name);
  if (at == scope.values.end()) {
    std::vector<std::string_view> names;
    for (const auto& [known, value] : scope.values) names.push_back(known);
    lexer_.fail_at(token.offset, fmt::format("unknown value '%{}' before this line{}", escape(name),
                                             did_you_mean(name, names)));
  }
  return at->second;
}

std::vector<Value*> TextParser::parse_operands(Scope& scope) {
  std::vector<Value*> operands;
  lexer_.expect("(", "after the op");
  if (lexer_.accept(")")) return operands;
  do {
    if (lexer_.accept("_")) {
      operands.push_back(nullptr);
    } else {
      operands.push_back(
          find_value(scope, lexer_.expect(TokenKind::value, "an operand's %name or '_'")));
    }
  } while (lexer_.accept(","));
  lexer_.expect(")", "after the operands");
  return operands;
}

TextParser::WrittenArguments TextParser::parse_arguments(const Op& op) {
  WrittenArguments written;
  written.bodies.assign(op.bodies.size(), nullptr);
  if (!lexer_.accept("{")) return written;
  do parse_argument(op, written);
  while (lexer_.accept(","));
  lexer_.expect("}", "after the attributes");
  return written;
}

void TextParser::parse_argument(const Op& op, WrittenArguments& written) {
  const Token name = lexer_.expect(TokenKind::word, "an attribute's name");
  const auto body = std::find(op.bodies.begin(), op.bodies.end(), name.text);
  const AttributeSpec* spec = op.find_attribute_spec(name.text);
  if (body == op.bodies.end() && spec == nullptr) {
    std::vector<std::string_view> names(op.bodies);
    for (const AttributeSpec& known : op.attributes) names.push_back(known.name);
    lexer_.fail_at(name.offset, fmt::format("{} has no attribute '{}'{}", op.name,
                                            escape(name.text, 60), did_you_mean(name.text, names)));
  }
  lexer_.expect("=", "after an attribute's name");
  bool is_first = true;
  if (spec != nullptr) {
    Attribute value = parse_attribute(spec->kind);
    for (const auto& [other, given] : written.attributes) is_first &= other != name.text;
    written.attributes.emplace_back(std::string(name.text), std::move(value));
  } else {
    Module*& place = written.bodies[static_cast<size_t>(body - op.bodies.begin())];
    is_first = place == nullptr;
    place = find_module(lexer_.expect(TokenKind::module, "a module's @name")).module;
  }
  if (!is_first) {
    lexer_.fail_at(name.offset, fmt::format("'{}' is set twice", name.text));
  }
}

// Fills in defaults; required attributes and bodies must be present.
void TextParser::complete(const Op& op, WrittenArguments& written, size_t offset) {
  for (size_t i = 0; i < op.bodies.size(); ++i) {
    if (written.bodies[i] == nullptr) {
      lexer_.fail_at(offset, fmt::format("{} requires the body '{}'", op.name, op.bodies[i]));
    }
  }
  for (const AttributeSpec& spec : op.attributes) {
    bool is_given = false;
    for (const auto& [name, value] : written.attributes) is_given |= name == spec.name;
    if (is_given) continue;
    if (spec.required) {
      lexer_.fail_at(offset, fmt::format("{} requires the attribute '{}'", op.name, spec.name));
    }
    if (spec.has_fallback) written.attributes.emplace_back(std::string(spec.name), spec.fallback);
  }
}

void TextParser::parse_found(Instruction& instruction) {
  if (!lexer_.accept("found")) return;
  do {
    const size_t offset = lexer_.position();
    const std::string name = parse_name("a symbol's name");
    SymbolRef symbol = program_->find_symbol(name);
    if (symbol == nullptr) {
      lexer_.fail_at(offset, fmt::format("unknown symbol '{}'", escape(name)));
    }
    instruction.add_found(std::move(symbol));
  } while (lexer_.accept(","));
}

void TextParser::infer_at(Instruction& instruction, size_t offset) {
  try {
    infer(instruction);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_model && error.kind() != ErrorKind::invalid_argument) {
      throw;
    }
    Error placed = lexer_.error_at(offset, ErrorKind::invalid_model, error.message());
    for (const std::string& note : error.notes()) placed.note(note);
    throw placed;
  }
}

void TextParser::compare_types(Instruction& instruction) {
  for (const Value& result : instruction.results()) {
    if (result.index() > 0) lexer_.expect(",", "between the results' types");
    const size_t offset = lexer_.position();
    const Type written = parse_type();
    if (!(written == result.type())) {
      lexer_.fail_at(offset, fmt::format("%{} has inferred type {}, got {}", escape(result.name()),
                                         result.type().to_string(), written.to_string()));
    }
    if (lexer_.accept("layout")) parse_layout(instruction, result.index());
  }
}

void TextParser::parse_layout(Instruction& instruction, int result) {
  const size_t offset = lexer_.position();
  std::vector<int> layout;
  lexer_.expect("[", "before the axes of a layout");
  do {
    const int64_t axis = parse_integer("an axis");
    layout.push_back(axis < 0 || axis >= kMaxRank ? -1 : static_cast<int>(axis));
  } while (lexer_.accept(","));
  lexer_.expect("]", "after the axes of a layout");
  Value& value = *instruction.result(result);
  if (!is_layout(layout, value.type())) {
    lexer_.fail_at(offset, fmt::format("%{} is {}: its layout is not an order of its axes",
                                       escape(value.name()), value.type().to_string()));
  }
  value.set_layout(std::move(layout));
}

void TextParser::parse_origins(Instruction& instruction) {
  std::vector<Origin> origins;
  do {
    Origin origin;
    origin.node = parse_string("a node's name in quotes");
    origin.op_type = lexer_.peek().kind == TokenKind::word ? std::string(lexer_.take().text)
                                                           : parse_string("an operator's name");
    if (lexer_.peek().kind == TokenKind::number) origin.index = parse_integer("a node's number");
    origin.file = lexer_.accept("in") ? parse_string("a file's name in quotes") : program_->name;
    origins.push_back(std::move(origin));
  } while (lexer_.accept(","));
  instruction.set_origins(std::move(origins));
}

void TextParser::parse_return(Scope& scope) {
  lexer_.take();
  std::vector<Value*> results;
  std::vector<std::string> names;
  if (!lexer_.peek().is("}")) {
    do {
      const Token token = lexer_.expect(TokenKind::value, "a result's %name");
      results.push_back(find_value(scope, token));
      names.push_back(lexer_.accept("as") ? parse_string("the result's name in quotes") : "");
    } while (lexer_.accept(","));
  }
  scope.module.set_results(std::move(results), std::move(names));
}

}  // namespace lathe
