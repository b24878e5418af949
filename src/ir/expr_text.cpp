// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <unordered_map>

#include "ir/expr.h"
#include "ir/expr_semantics.h"

namespace lathe {
namespace {

std::string constant_text(const Expr& expr) {
  const uint64_t bits = expr.constant_bits();
  switch (expr.type()) {
    case ExprType::f32:
      return fmt::format("{}", __builtin_bit_cast(float, static_cast<uint32_t>(bits)));
    case ExprType::f64:
      return fmt::format("{}", __builtin_bit_cast(double, bits));
    case ExprType::i32:
      return fmt::format("{}", static_cast<int32_t>(bits));
    case ExprType::i64:
      return fmt::format("{}", static_cast<int64_t>(bits));
    case ExprType::u64:
      return fmt::format("{}", bits);
    case ExprType::boolean:
      break;
  }
  return bits != 0 ? "true" : "false";
}

bool is_leaf(const Expr& expr) {
  return expr.op() == ExprOp::argument || expr.op() == ExprOp::constant;
}

class Printer {
 public:
  std::string print(const Expr& root) {
    collect(root);
    for (const Expr& expr : order_) {
      std::string text = node_text(expr);
      if (uses_[expr.id()] > 1 && !is_leaf(expr)) {
        const std::string name = fmt::format("%{}", names_++);
        out_ += fmt::format("{} = {}; ", name, text);
        text = name;
      }
      texts_[expr.id()] = std::move(text);
    }
    return out_ + texts_[root.id()];
  }

 private:
  // Collects inputs before users, each once; iterative, because chains may be long.
  void collect(const Expr& root) {
    std::vector<std::pair<const Expr*, size_t>> stack{{&root, 0}};
    uses_[root.id()] = 1;
    while (!stack.empty()) {
      auto& [expr, next] = stack.back();
      if (next == expr->inputs().size()) {
        order_.push_back(*expr);
        stack.pop_back();
      } else {
        const Expr& input = expr->inputs()[next++];
        if (++uses_[input.id()] == 1) stack.emplace_back(&input, 0);
      }
    }
  }

  std::string node_text(const Expr& expr) {
    if (expr.op() == ExprOp::argument) return fmt::format("x{}", expr.argument_index());
    if (expr.op() == ExprOp::constant) return constant_text(expr);
    const bool typed = expr.op() == ExprOp::convert || expr.op() == ExprOp::bitcast;
    std::string text(to_string(expr.op()));
    if (typed) text += fmt::format("<{}>", to_string(expr.type()));
    text += '(';
    for (size_t i = 0; i < expr.inputs().size(); ++i) {
      const Expr& input = expr.inputs()[i];
      text += (i == 0 ? "" : ", ");
      text += uses_[input.id()] == 1 ? std::move(texts_[input.id()]) : texts_[input.id()];
    }
    return text + ')';
  }

  std::vector<Expr> order_;
  std::unordered_map<const void*, int> uses_;
  std::unordered_map<const void*, std::string> texts_;
  std::string out_;
  int names_ = 0;
};

}  // namespace

std::string to_string(const Expr& expr) { return Printer().print(expr); }

}  // namespace lathe
