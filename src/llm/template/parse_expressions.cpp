// SPDX-License-Identifier: MIT
#include <optional>

#include "llm/template/budget.h"
#include "llm/template/parser.h"

namespace lathe::templates {
namespace {

// Names of invalid assignment targets in Jinja's messages.
std::string_view class_name(Kind kind) {
  switch (kind) {
    case Kind::constant:
      return "const";
    case Kind::tuple:
      return "tuple";
    case Kind::list:
      return "list";
    case Kind::dict:
      return "dict";
    default:
      return "name";
  }
}

bool can_assign(const Node* node) {
  if (node->kind == Kind::name || node->kind == Kind::namespace_ref) return true;
  if (node->kind != Kind::tuple) return false;
  for (const Node* item : node->nodes) {
    if (!can_assign(item)) return false;
  }
  return true;
}

std::optional<Comparison> comparison_of(const Token& token) {
  if (token.kind != TokenKind::symbol) return {};
  if (token.text == "==") return Comparison::eq;
  if (token.text == "!=") return Comparison::ne;
  if (token.text == ">") return Comparison::gt;
  if (token.text == ">=") return Comparison::gteq;
  if (token.text == "<") return Comparison::lt;
  if (token.text == "<=") return Comparison::lteq;
  return {};
}

}  // namespace

void Parser::store(Node* node, bool is_parameter) {
  node->is_stored = true;
  node->is_parameter = is_parameter;
  if (node->kind != Kind::tuple) return;
  for (Node* item : node->nodes) store(item, is_parameter);
}

Node* Parser::parse_target(bool is_name_only, bool takes_member) {
  Node* target = nullptr;
  if (is_name_only) {
    const Token token = expect_name();
    target = add(Kind::name, token.line);
    target->text = token.text;
    const std::string& name = token.text;
    if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
        name == "None") {
      raise_syntax("can't assign to 'name'", token.line);
    }
  } else {
    target = parse_tuple(true, true, false, takes_member);
  }
  if (!can_assign(target)) {
    raise_syntax(fmt::format("can't assign to '{}'", class_name(target->kind)), target->line);
  }
  store(target, false);
  return target;
}

Node* Parser::parse_expression(bool takes_condition) {
  return takes_condition ? parse_condition() : parse_or();
}

// a: condition, b: value, c: other value, may be null
Node* Parser::parse_condition() {
  const Level level;
  uint32_t line = current_.line;
  Node* node = parse_or();
  while (skip_name("if")) {
    Node* test = parse_or();
    Node* otherwise = skip_name("else") ? parse_condition() : nullptr;
    node = binary(Kind::conditional, line, test, node);
    node->c = otherwise;
    raise_height(node, otherwise);
    line = current_.line;
  }
  return node;
}

Node* Parser::parse_or() {
  uint32_t line = current_.line;
  Node* left = parse_and();
  while (skip_name("or")) {
    left = binary(Kind::logical_or, line, left, parse_and());
    line = current_.line;
  }
  return left;
}

Node* Parser::parse_and() {
  uint32_t line = current_.line;
  Node* left = parse_not();
  while (skip_name("and")) {
    left = binary(Kind::logical_and, line, left, parse_not());
    line = current_.line;
  }
  return left;
}

Node* Parser::parse_not() {
  const Level level;
  if (!current_.is_name("not")) return parse_compare();
  const uint32_t line = advance().line;
  return unary(Kind::logical_not, line, parse_not());
}

// nodes: the operands, one more than comparisons
Node* Parser::parse_compare() {
  const uint32_t line = current_.line;
  Node* first = parse_sum();
  Node* node = nullptr;
  for (;;) {
    std::optional<Comparison> comparison = comparison_of(current_);
    if (!comparison && current_.is_name("in")) comparison = Comparison::in;
    if (!comparison && current_.is_name("not") && look().is_name("in")) {
      advance();
      comparison = Comparison::not_in;
    }
    if (!comparison) return node == nullptr ? first : node;
    advance();
    if (node == nullptr) {
      node = add(Kind::compare, line);
      node->nodes.push_back(first);
      raise_height(node, first);
    }
    node->comparisons.push_back(*comparison);
    node->nodes.push_back(parse_sum());
    raise_height(node, node->nodes.back());
  }
}

Node* Parser::parse_sum() {
  uint32_t line = current_.line;
  Node* left = parse_concat();
  while (current_.is_symbol("+") || current_.is_symbol("-")) {
    const Kind kind = advance().text == "+" ? Kind::add : Kind::subtract;
    left = binary(kind, line, left, parse_concat());
    line = current_.line;
  }
  return left;
}

Node* Parser::parse_concat() {
  const uint32_t line = current_.line;
  Node* first = parse_product();
  if (!current_.is_symbol("~")) return first;
  Node* node = add(Kind::concat, line);
  node->nodes.push_back(first);
  while (skip_symbol("~")) node->nodes.push_back(parse_product());
  for (const Node* part : node->nodes) raise_height(node, part);
  return node;
}

Node* Parser::parse_product() {
  uint32_t line = current_.line;
  Node* left = parse_power();
  while (current_.is_symbol("*") || current_.is_symbol("/") || current_.is_symbol("//") ||
         current_.is_symbol("%")) {
    const std::string symbol = advance().text;
    const Kind kind = symbol == "*"    ? Kind::multiply
                      : symbol == "/"  ? Kind::divide
                      : symbol == "//" ? Kind::floor_divide
                                       : Kind::modulo;
    left = binary(kind, line, left, parse_power());
    line = current_.line;
  }
  return left;
}

Node* Parser::parse_power() {
  uint32_t line = current_.line;
  Node* left = parse_unary();
  while (skip_symbol("**")) {
    left = binary(Kind::power, line, left, parse_unary());
    line = current_.line;
  }
  return left;
}

Node* Parser::parse_unary(bool takes_filter) {
  const Level level;
  const uint32_t line = current_.line;
  Node* node = nullptr;
  if (skip_symbol("-")) {
    node = unary(Kind::negative, line, parse_unary(false));
  } else if (skip_symbol("+")) {
    node = unary(Kind::positive, line, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(node);
  return takes_filter ? parse_filters(node) : node;
}

Node* Parser::parse_name(bool takes_member) {
  const Token token = advance();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return constant(Value(), token.line);
  Node* node = add(Kind::name, token.line);
  node->text = name;
  if (takes_member && skip_symbol(".")) {
    node->kind = Kind::namespace_ref;
    node->value = Value::string(expect_name().text);
    node->value.object()->make_immortal();
  }
  return node;
}

Node* Parser::parse_primary(bool takes_member) {
  const uint32_t line = current_.line;
  switch (current_.kind) {
    case TokenKind::name:
      return parse_name(takes_member);
    case TokenKind::string: {
      std::string text;
      while (current_.kind == TokenKind::string) text += advance().text;
      return constant(Value::string(std::move(text)), line);
    }
    case TokenKind::number:
      return constant(advance().value, line);
    default:
      break;
  }
  if (skip_symbol("(")) {
    Node* node = parse_tuple(false, true, true);
    expect_symbol(")");
    return node;
  }
  if (current_.is_symbol("[")) return parse_list();
  if (current_.is_symbol("{")) return parse_dict();
  raise_syntax(fmt::format("unexpected '{}'", current_.described()), line);
}

Node* Parser::parse_tuple(bool is_simple, bool takes_condition, bool is_parenthesised,
                          bool takes_member) {
  uint32_t line = current_.line;
  Nodes items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_symbol(",");
    if (current_.kind == TokenKind::variable_end || current_.kind == TokenKind::block_end ||
        current_.is_symbol(")")) {
      break;
    }
    items.push_back(is_simple ? parse_primary(takes_member) : parse_expression(takes_condition));
    if (!current_.is_symbol(",")) break;
    is_tuple = true;
    line = current_.line;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!is_parenthesised) {
      raise_syntax(fmt::format("Expected an expression, got '{}'", current_.described()),
                   current_.line);
    }
  }
  Node* node = add(Kind::tuple, line);
  for (const Node* item : items) raise_height(node, item);
  node->nodes = std::move(items);
  return node;
}

Node* Parser::parse_list() {
  Node* node = add(Kind::list, advance().line);
  while (!current_.is_symbol("]")) {
    if (!node->nodes.empty()) expect_symbol(",");
    if (current_.is_symbol("]")) break;
    node->nodes.push_back(parse_expression());
    raise_height(node, node->nodes.back());
  }
  expect_symbol("]");
  return node;
}

Node* Parser::parse_dict() {
  Node* node = add(Kind::dict, advance().line);
  while (!current_.is_symbol("}")) {
    if (!node->nodes.empty()) expect_symbol(",");
    if (current_.is_symbol("}")) break;
    node->nodes.push_back(parse_expression());
    expect_symbol(":");
    node->nodes.push_back(parse_expression());
  }
  for (const Node* part : node->nodes) raise_height(node, part);
  expect_symbol("}");
  return node;
}

Node* Parser::parse_postfix(Node* node) {
  for (;;) {
    if (current_.is_symbol(".") || current_.is_symbol("[")) {
      node = parse_subscript(node);
    } else if (current_.is_symbol("(")) {
      node = parse_call(node);
    } else {
      return node;
    }
  }
}

Node* Parser::parse_filters(Node* node) {
  for (;;) {
    if (current_.is_symbol("|")) {
      node = parse_filter(node);
    } else if (current_.is_name("is")) {
      node = parse_test(node);
    } else if (current_.is_symbol("(")) {
      node = parse_call(node);
    } else {
      return node;
    }
  }
}

// a: object, b: index; for an attribute, text has the name
Node* Parser::parse_subscript(Node* object) {
  const Token token = advance();
  if (token.text == ".") {
    Token name = advance();
    if (name.kind == TokenKind::name) {
      Node* node = unary(Kind::attribute, token.line, object);
      node->text = std::move(name.text);
      return node;
    }
    if (name.kind != TokenKind::number || !name.is_integer) {
      raise_syntax("expected name or number", name.line);
    }
    return binary(Kind::item, token.line, object, constant(name.value, name.line));
  }
  Nodes items;
  while (!current_.is_symbol("]")) {
    if (!items.empty()) expect_symbol(",");
    items.push_back(parse_subscribed());
  }
  expect_symbol("]");
  if (items.size() == 1) return binary(Kind::item, token.line, object, items[0]);
  Node* tuple = add(Kind::tuple, token.line);
  for (const Node* item : items) raise_height(tuple, item);
  tuple->nodes = std::move(items);
  return binary(Kind::item, token.line, object, tuple);
}

// An index, or a slice: a, b, c are start, stop and step, which may be null.
Node* Parser::parse_subscribed() {
  const uint32_t line = current_.line;
  Node* start = nullptr;
  if (!current_.is_symbol(":")) {
    start = parse_expression();
    if (!current_.is_symbol(":")) return start;
  }
  advance();
  const auto is_end = [&] { return current_.is_symbol("]") || current_.is_symbol(","); };
  Node* node = add(Kind::slice, line);
  node->a = start;
  if (!current_.is_symbol(":") && !is_end()) node->b = parse_expression();
  if (skip_symbol(":") && !is_end()) node->c = parse_expression();
  raise_height(node, node->a);
  raise_height(node, node->b);
  raise_height(node, node->c);
  return node;
}

std::unique_ptr<CallArguments> Parser::parse_arguments(Node* call) {
  const uint32_t line = current_.line;
  auto out = std::make_unique<CallArguments>();
  const auto ensure = [&](bool is_valid) {
    if (!is_valid) raise_syntax("invalid syntax for function call expression", line);
  };
  expect_symbol("(");
  for (bool is_first = true; !current_.is_symbol(")"); is_first = false) {
    if (!is_first) {
      expect_symbol(",");
      if (current_.is_symbol(")")) break;
    }
    Node* value = nullptr;
    if (current_.is_symbol("*")) {
      ensure(out->more_positional == nullptr && out->more_named == nullptr);
      advance();
      value = out->more_positional = parse_expression();
    } else if (current_.is_symbol("**")) {
      ensure(out->more_named == nullptr);
      advance();
      value = out->more_named = parse_expression();
    } else if (current_.kind == TokenKind::name && look().is_symbol("=")) {
      ensure(out->more_named == nullptr);
      std::string name = advance().text;
      advance();
      value = parse_expression();
      out->named.emplace_back(std::move(name), value);
    } else {
      ensure(out->more_positional == nullptr && out->more_named == nullptr && out->named.empty());
      value = parse_expression();
      out->positional.push_back(value);
    }
    raise_height(call, value);
  }
  expect_symbol(")");
  return out;
}

Node* Parser::parse_call(Node* callee) {
  Node* node = unary(Kind::call, current_.line, callee);
  node->arguments = parse_arguments(node);
  return node;
}

Node* Parser::parse_filter(Node* value, bool starts_inline) {
  Node* node = value;
  while (current_.is_symbol("|") || starts_inline) {
    if (!starts_inline) advance();
    starts_inline = false;
    const Token token = expect_name();
    node = unary(Kind::filter, token.line, node);
    node->text = token.text;
    while (skip_symbol(".")) node->text += "." + expect_name().text;
    if (current_.is_symbol("(")) {
      node->arguments = parse_arguments(node);
    } else {
      node->arguments = std::make_unique<CallArguments>();
    }
  }
  return node;
}

Node* Parser::parse_test(Node* value) {
  const uint32_t line = advance().line;
  const bool is_negated = skip_name("not");
  Node* node = unary(Kind::test, line, value);
  node->text = expect_name().text;
  while (skip_symbol(".")) node->text += "." + expect_name().text;
  node->arguments = std::make_unique<CallArguments>();
  if (current_.is_symbol("(")) {
    node->arguments = parse_arguments(node);
  } else if (current_.kind == TokenKind::string || current_.kind == TokenKind::number ||
             current_.is_symbol("[") || current_.is_symbol("{") ||
             (current_.kind == TokenKind::name && !current_.is_name("else") &&
              !current_.is_name("or") && !current_.is_name("and"))) {
    if (current_.is_name("is")) {
      raise_syntax("You cannot chain multiple tests with is", current_.line);
    }
    Node* argument = parse_postfix(parse_primary());
    raise_height(node, argument);
    node->arguments->positional.push_back(argument);
  }
  return is_negated ? unary(Kind::logical_not, line, node) : node;
}

}  // namespace lathe::templates
