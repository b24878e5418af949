// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>
#include <map>

#include "llm/template/budget.h"
#include "llm/template/parser.h"
#include "llm/template/unicode.h"

namespace lathe::templates {

Node* Parser::parse_statement() {
  const Level level;
  if (current_.kind != TokenKind::name) raise_syntax("tag name expected", current_.line);
  const std::string keyword = current_.text;
  tags_.push_back(keyword);
  Node* node = parse_keyword(keyword);
  if (node == nullptr) {
    tags_.pop_back();
    fail_end(&keyword, current_.line);
  }
  tags_.pop_back();
  return node;
}

Node* Parser::parse_keyword(const std::string& keyword) {
  using Parse = Node* (Parser::*)();
  static const std::map<std::string, Parse, std::less<>> kStatements{
      {"for", &Parser::parse_for},
      {"if", &Parser::parse_if},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block},
      {"filter", &Parser::parse_filter_block},
      {"generation", &Parser::parse_generation},
      {"autoescape", &Parser::parse_autoescape},
      {"block", &Parser::parse_block},
      {"print", &Parser::parse_print},
      {"extends", &Parser::parse_extends},
      {"include", &Parser::parse_include},
      {"import", &Parser::parse_import},
      {"from", &Parser::parse_from},
      {"break", &Parser::parse_loop_control},
      {"continue", &Parser::parse_loop_control},
  };
  const auto found = kStatements.find(keyword);
  return found == kStatements.end() ? nullptr : (this->*found->second)();
}

Node* Parser::parse_for() {
  Node* node = add(Kind::for_loop, advance().line);
  Body& body = body_of(node);
  node->a = parse_target(false);
  if (!skip_name("in")) fail_expected("in");
  node->b = parse_tuple(false, false);
  if (skip_name("if")) node->c = parse_expression();
  body.is_recursive = skip_name("recursive");
  body.statements = parse_statements({"endfor", "else"}, false);
  if (advance().text != "endfor") body.otherwise = parse_statements({"endfor"}, true);
  return node;
}

// Each branch becomes a node; a is the condition, null for else.
Node* Parser::parse_if() {
  Node* node = add(Kind::if_statement, advance().line);
  uint32_t line = node->line;
  for (;;) {
    Node* branch = add(Kind::if_statement, line);
    branch->a = parse_tuple(false, false);
    body_of(branch).statements = parse_statements({"elif", "else", "endif"}, false);
    node->nodes.push_back(branch);
    const Token end = advance();
    line = current_.line;
    if (end.text == "elif") continue;
    if (end.text == "else") {
      Node* otherwise = add(Kind::if_statement, end.line);
      body_of(otherwise).statements = parse_statements({"endif"}, true);
      node->nodes.push_back(otherwise);
    }
    return node;
  }
}

Node* Parser::parse_set() {
  Node* node = add(Kind::set, advance().line);
  node->a = parse_target(false, true);
  if (skip_symbol("=")) {
    node->b = parse_tuple();
    return node;
  }
  node->kind = Kind::set_block;
  node->b = parse_filter(nullptr);
  body_of(node).statements = parse_statements({"endset"}, true);
  return node;
}

Node* Parser::parse_with() {
  Node* node = add(Kind::with, advance().line);
  Body& body = body_of(node);
  while (current_.kind != TokenKind::block_end) {
    if (!body.targets.empty()) expect_symbol(",");
    Node* target = parse_target(false);
    store(target, true);
    body.targets.push_back(target);
    expect_symbol("=");
    body.values.push_back(parse_expression());
  }
  body.statements = parse_statements({"endwith"}, true);
  return node;
}

void Parser::parse_signature(Body& body) {
  expect_symbol("(");
  while (!current_.is_symbol(")")) {
    if (!body.targets.empty()) expect_symbol(",");
    Node* target = parse_target(true);
    target->is_parameter = true;
    if (skip_symbol("=")) {
      body.values.push_back(parse_expression());
    } else if (!body.values.empty()) {
      raise_syntax("non-default argument follows default argument", current_.line);
    }
    body.targets.push_back(target);
  }
  expect_symbol(")");
}

Node* Parser::parse_macro() {
  Node* node = add(Kind::macro, advance().line);
  node->text = parse_target(true)->text;
  Body& body = body_of(node);
  parse_signature(body);
  body.statements = parse_statements({"endmacro"}, true);
  return node;
}

Node* Parser::parse_call_block() {
  Node* node = add(Kind::call_block, advance().line);
  Body& body = body_of(node);
  if (current_.is_symbol("(")) parse_signature(body);
  node->a = parse_expression();
  if (node->a->kind != Kind::call) raise_syntax("expected call", node->line);
  body.statements = parse_statements({"endcall"}, true);
  return node;
}

Node* Parser::parse_filter_block() {
  Node* node = add(Kind::filter_block, advance().line);
  node->a = parse_filter(nullptr, true);
  body_of(node).statements = parse_statements({"endfilter"}, true);
  return node;
}

Node* Parser::parse_generation() {
  Node* node = add(Kind::generation, advance().line);
  body_of(node).statements = parse_statements({"endgeneration"}, true);
  return node;
}

Node* Parser::parse_autoescape() {
  Node* node = add(Kind::autoescape, advance().line);
  node->a = parse_expression();
  body_of(node).statements = parse_statements({"endautoescape"}, true);
  return node;
}

Node* Parser::parse_block() {
  Node* node = add(Kind::block, advance().line);
  Body& body = body_of(node);
  node->text = expect_name().text;
  body.is_scoped = skip_name("scoped");
  body.is_required = skip_name("required");
  if (current_.is_symbol("-")) {
    raise_syntax(
        "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, "
        "use an underscore instead.",
        current_.line);
  }
  body.statements = parse_statements({"endblock"}, true);
  const auto is_blank = [](const Node* part) {
    return part->kind == Kind::text && strip_left(part->text).empty();
  };
  for (const Node* statement : body.statements) {
    if (body.is_required &&
        (statement->kind != Kind::output ||
         !std::all_of(statement->nodes.begin(), statement->nodes.end(), is_blank))) {
      raise_syntax("Required blocks can only contain comments or whitespace", current_.line);
    }
  }
  skip_name(node->text);
  out_.blocks.push_back(node);
  return node;
}

Node* Parser::parse_print() {
  Node* node = add(Kind::output, advance().line);
  while (current_.kind != TokenKind::block_end) {
    if (!node->nodes.empty()) expect_symbol(",");
    node->nodes.push_back(parse_expression());
  }
  return node;
}

Node* Parser::parse_extends() {
  Node* node = add(Kind::load_template, advance().line);
  node->text = "extends";
  node->a = parse_expression();
  return node;
}

// "with context" or "without context"
void Parser::parse_context() {
  if ((current_.is_name("with") || current_.is_name("without")) && look().is_name("context")) {
    advance();
    advance();
  }
}

Node* Parser::parse_include() {
  Node* node = add(Kind::load_template, advance().line);
  node->text = "include";
  node->a = parse_expression();
  if (current_.is_name("ignore") && look().is_name("missing")) {
    advance();
    advance();
  }
  parse_context();
  return node;
}

Node* Parser::parse_import() {
  Node* node = add(Kind::load_template, advance().line);
  node->text = "import";
  node->a = parse_expression();
  if (!skip_name("as")) fail_expected("as");
  node->nodes.push_back(parse_target(true));
  parse_context();
  return node;
}

Node* Parser::parse_from() {
  Node* node = add(Kind::load_template, advance().line);
  node->text = "import";
  node->a = parse_expression();
  if (!skip_name("import")) fail_expected("import");
  for (;;) {
    if (!node->nodes.empty()) expect_symbol(",");
    if (current_.kind != TokenKind::name) fail_expected("name");
    if ((current_.is_name("with") || current_.is_name("without")) && look().is_name("context")) {
      parse_context();
      break;
    }
    Node* target = parse_target(true);
    if (target->text.starts_with('_')) {
      raise_syntax("names starting with an underline can not be imported", target->line,
                   Exception::template_assertion);
    }
    if (skip_name("as")) target = parse_target(true);
    node->nodes.push_back(target);
    if ((current_.is_name("with") || current_.is_name("without")) && look().is_name("context")) {
      parse_context();
      break;
    }
    if (!current_.is_symbol(",")) break;
  }
  return node;
}

Node* Parser::parse_loop_control() {
  const Token token = advance();
  return add(token.text == "break" ? Kind::break_loop : Kind::continue_loop, token.line);
}

}  // namespace lathe::templates
