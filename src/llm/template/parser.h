// SPDX-License-Identifier: MIT
// Parses tokens to nodes: Jinja's grammar with loop controls and {% generation %}.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/template/ast.h"
#include "llm/template/lexer.h"

namespace lathe::templates {

class Parser {
 public:
  Parser(std::string_view source, Template& out);
  void parse();

 private:
  using Words = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& current() const { return current_; }
  Token advance();
  const Token& look();
  bool skip_name(std::string_view name);
  bool skip_symbol(std::string_view symbol);
  Token expect(TokenKind kind, std::string_view described);
  Token expect_name() { return expect(TokenKind::name, "name"); }
  void expect_symbol(std::string_view symbol);
  [[noreturn]] void fail_expected(std::string_view described);
  [[noreturn]] void fail_end(const std::string* tag, uint32_t line);

  // Nodes. Their heights bound the recursion over expressions.
  Node* add(Kind kind, uint32_t line);
  Node* unary(Kind kind, uint32_t line, Node* operand);
  Node* binary(Kind kind, uint32_t line, Node* left, Node* right);
  Node* constant(Value value, uint32_t line);
  void raise_height(Node* node, const Node* child);
  Body& body_of(Node* node);

  // Statements.
  Nodes parse_body(const Words* end);  // up to a tag of `end`, which becomes current
  Nodes parse_statements(Words end, bool drops_end);
  Node* parse_statement();
  Node* parse_keyword(const std::string& keyword);
  Node* parse_for();  // a: target, b: iterable, c: condition
  Node* parse_if();   // nodes: one per branch
  Node* parse_set();  // a: target, b: value or filter
  Node* parse_with();
  Node* parse_macro();
  Node* parse_call_block();    // a: call
  Node* parse_filter_block();  // a: filter
  Node* parse_generation();
  Node* parse_autoescape();  // a: condition
  Node* parse_block();
  Node* parse_print();
  Node* parse_extends();
  Node* parse_include();
  Node* parse_import();
  Node* parse_from();
  Node* parse_loop_control();
  void parse_context();
  void parse_signature(Body& body);

  // Expressions.
  Node* parse_target(bool is_name_only, bool takes_member = false);
  void store(Node* node, bool is_parameter);
  Node* parse_expression(bool takes_condition = true);
  Node* parse_condition();
  Node* parse_or();
  Node* parse_and();
  Node* parse_not();
  Node* parse_compare();
  Node* parse_sum();
  Node* parse_concat();
  Node* parse_product();
  Node* parse_power();
  Node* parse_unary(bool takes_filter = true);
  Node* parse_primary(bool takes_member = false);
  Node* parse_name(bool takes_member);
  Node* parse_tuple(bool is_simple = false, bool takes_condition = true,
                    bool is_parenthesised = false, bool takes_member = false);
  Node* parse_list();
  Node* parse_dict();
  Node* parse_postfix(Node* node);
  Node* parse_filters(Node* node);
  Node* parse_subscript(Node* node);
  Node* parse_subscribed();
  Node* parse_call(Node* node);  // a: callee
  std::unique_ptr<CallArguments> parse_arguments(Node* call);
  Node* parse_filter(Node* node, bool starts_inline = false);  // a: value, null in a filter block
  Node* parse_test(Node* node);

  Lexer lexer_;
  Template& out_;
  Token current_;
  Token ahead_;
  bool has_ahead_ = false;
  std::vector<std::string> tags_;
  std::vector<std::vector<std::string>> ends_;
};

}  // namespace lathe::templates
