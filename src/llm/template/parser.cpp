// SPDX-License-Identifier: MIT
#include "llm/template/parser.h"

#include <algorithm>

#include "llm/template/budget.h"
#include "llm/template/resolve.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

constexpr uint32_t kMaxHeight = 200;
constexpr int kMaxParserDepth = 150;

}  // namespace

std::unique_ptr<Template> parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    raise(Exception::limit, "the template has {} bytes, at most {} are allowed", source.size(),
          kMaxTemplateBytes);
  }
  if (const size_t bad = find_invalid_utf8(source); bad != std::string_view::npos) {
    raise(Exception::template_syntax, "byte {} of the template is not valid UTF-8", bad);
  }
  Limits limits;
  limits.depth = kMaxParserDepth;
  const Budget budget(limits);
  auto parsed = std::make_unique<Template>();
  Parser(source, *parsed).parse();
  resolve_names(*parsed);
  return parsed;
}

Template::~Template() {
  for (const auto& node : nodes) {
    if (node->value.object() != nullptr) node->value.object()->make_mortal();
  }
}

Parser::Parser(std::string_view source, Template& out) : lexer_(source), out_(out) {}

void Parser::parse() {
  advance();
  out_.body = parse_body(nullptr);
}

Token Parser::advance() {
  Token old = std::move(current_);
  if (has_ahead_) {
    current_ = std::move(ahead_);
    has_ahead_ = false;
  } else {
    step(4);
    current_ = lexer_.next();
  }
  return old;
}

const Token& Parser::look() {
  if (!has_ahead_) {
    ahead_ = lexer_.next();
    has_ahead_ = true;
  }
  return ahead_;
}

bool Parser::skip_name(std::string_view name) {
  if (!current_.is_name(name)) return false;
  advance();
  return true;
}

bool Parser::skip_symbol(std::string_view symbol) {
  if (!current_.is_symbol(symbol)) return false;
  advance();
  return true;
}

void Parser::fail_expected(std::string_view described) {
  if (current_.kind == TokenKind::end) {
    raise_syntax(fmt::format("unexpected end of template, expected '{}'.", described),
                 current_.line);
  }
  raise_syntax(fmt::format("expected token '{}', got '{}'", described, current_.described()),
               current_.line);
}

Token Parser::expect(TokenKind kind, std::string_view described) {
  if (current_.kind != kind) fail_expected(described);
  return advance();
}

void Parser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_expected(symbol);
}

void Parser::fail_end(const std::string* tag, uint32_t line) {
  std::string text = tag == nullptr ? "Unexpected end of template."
                                    : fmt::format("Encountered unknown tag '{}'.", *tag);
  if (!ends_.empty()) {
    std::string looking;
    for (const std::string& end : ends_.back()) {
      looking += fmt::format("{}'{}'", looking.empty() ? "" : " or ", end);
    }
    const bool is_expected =
        tag != nullptr && std::any_of(ends_.begin(), ends_.end(), [&](auto& e) {
          return std::find(e.begin(), e.end(), *tag) != e.end();
        });
    text += is_expected ? fmt::format(
                              " You probably made a nesting mistake. Jinja is expecting this tag, "
                              "but currently looking for {}.",
                              looking)
                        : fmt::format(" Jinja was looking for the following tags: {}.", looking);
  }
  if (!tags_.empty()) {
    text += fmt::format(" The innermost block that needs to be closed is '{}'.", tags_.back());
  }
  raise_syntax(std::move(text), line);
}

Node* Parser::add(Kind kind, uint32_t line) {
  out_.nodes.push_back(std::make_unique<Node>());
  Node* node = out_.nodes.back().get();
  node->kind = kind;
  node->line = line;
  return node;
}

void Parser::raise_height(Node* node, const Node* child) {
  if (child == nullptr) return;
  node->height = std::max(node->height, child->height + 1);
  if (node->height > kMaxHeight) {
    throw TemplateError(Exception::recursion,
                        fmt::format("expressions are nested deeper than {} levels", kMaxHeight),
                        static_cast<int>(node->line));
  }
}

Node* Parser::unary(Kind kind, uint32_t line, Node* operand) {
  Node* node = add(kind, line);
  node->a = operand;
  raise_height(node, operand);
  return node;
}

Node* Parser::binary(Kind kind, uint32_t line, Node* left, Node* right) {
  Node* node = unary(kind, line, left);
  node->b = right;
  raise_height(node, right);
  return node;
}

Node* Parser::constant(Value value, uint32_t line) {
  Node* node = add(Kind::constant, line);
  if (value.object() != nullptr) value.object()->make_immortal();
  node->value = std::move(value);
  return node;
}

Body& Parser::body_of(Node* node) {
  if (!node->body) node->body = std::make_unique<Body>();
  return *node->body;
}

Nodes Parser::parse_body(const Words* end) {
  Nodes body;
  Node* output = nullptr;
  const auto print = [&](Node* node) {
    if (output == nullptr) {
      output = add(Kind::output, node->line);
      body.push_back(output);
    }
    output->nodes.push_back(node);
  };
  if (end != nullptr) ends_.emplace_back(end->begin(), end->end());
  while (current_.kind != TokenKind::end) {
    if (current_.kind == TokenKind::data) {
      const Token token = advance();
      if (token.text.empty()) continue;
      Node* node = add(Kind::text, token.line);
      node->text = token.text;
      print(node);
    } else if (current_.kind == TokenKind::variable_begin) {
      advance();
      print(parse_tuple());
      expect(TokenKind::variable_end, "end of print statement");
    } else {
      output = nullptr;
      expect(TokenKind::block_begin, "begin of statement block");
      if (end != nullptr && current_.kind == TokenKind::name &&
          std::find(end->begin(), end->end(), current_.text) != end->end()) {
        break;
      }
      body.push_back(parse_statement());
      expect(TokenKind::block_end, "end of statement block");
    }
  }
  if (current_.kind == TokenKind::end && end != nullptr) fail_end(nullptr, current_.line);
  if (end != nullptr) ends_.pop_back();
  return body;
}

Nodes Parser::parse_statements(Words end, bool drops_end) {
  skip_symbol(":");
  expect(TokenKind::block_end, "end of statement block");
  Nodes body = parse_body(&end);
  if (drops_end) advance();
  return body;
}

}  // namespace lathe::templates
