// SPDX-License-Identifier: MIT
#include "ir/expr.h"

#include <array>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "ir/expr_semantics.h"

namespace lathe {

struct ExprNode {
  ExprNode(ExprOp op_, ExprType type_, std::vector<Expr> inputs_, uint64_t bits_)
      : op(op_), type(type_), inputs(std::move(inputs_)), bits(bits_) {}
  ExprNode(const ExprNode&) = delete;
  ExprNode& operator=(const ExprNode&) = delete;
  // Destroys inputs iteratively: a sum of many operands is a deep chain.
  ~ExprNode() {
    std::vector<Expr> pending = std::move(inputs);
    while (!pending.empty()) {
      const Expr expr = std::move(pending.back());
      pending.pop_back();
      if (expr.node_.use_count() != 1) continue;
      auto& children = const_cast<ExprNode&>(*expr.node_).inputs;
      pending.insert(pending.end(), std::make_move_iterator(children.begin()),
                     std::make_move_iterator(children.end()));
      children.clear();
    }
  }

  ExprOp op;
  ExprType type;
  std::vector<Expr> inputs;
  uint64_t bits;  // constant: its value; argument: its index
};

namespace {

constexpr std::array<std::string_view, 6> kTypeNames{"f32", "f64", "i32", "i64", "u64", "bool"};
constexpr std::array<std::string_view, 32> kOpNames{
    "argument",   "constant", "add",     "sub",     "mul",     "div",        "fma",
    "neg",        "abs",      "min",     "max",     "floor",   "ceil",       "trunc",
    "round_even", "sqrt",     "eq",      "ne",      "lt",      "le",         "gt",
    "ge",         "bit_and",  "bit_or",  "bit_xor", "bit_not", "shift_left", "shift_right",
    "select",     "convert",  "bitcast", "is_nan"};

template <class T>
T value_from_bits(uint64_t bits) {
  T value{};
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
uint64_t bits_from_value(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

uint64_t fold_convert(const Expr& a, ExprType to) {
  return semantics::visit_type(a.type(), [&]<class From>() {
    const From value = value_from_bits<From>(a.constant_bits());
    return semantics::visit_type(
        to, [&]<class To>() { return bits_from_value(semantics::convert<To>(value)); });
  });
}

// Bits of `op` applied to constants; `known` is false if the op is undefined for their type.
uint64_t fold_function(ExprOp op, std::span<const Expr> inputs, bool& known) {
  return semantics::visit_type(inputs[0].type(), [&]<class T>() {
    const auto value = [&](size_t i) { return value_from_bits<T>(inputs[i].constant_bits()); };
    uint64_t bits = 0;
    known = semantics::visit_function<T>(op, [&](auto function) {
      if constexpr (std::is_invocable_v<decltype(function), T>) {
        bits = bits_from_value(function(value(0)));
      } else if constexpr (std::is_invocable_v<decltype(function), T, T>) {
        bits = bits_from_value(function(value(0), value(1)));
      } else {
        bits = bits_from_value(function(value(0), value(1), value(2)));
      }
    });
    return bits;
  });
}

bool all_constant(std::span<const Expr> inputs) {
  for (const Expr& input : inputs) {
    if (!input.is_constant()) return false;
  }
  return !inputs.empty();
}

bool function_exists(ExprOp op, ExprType type) {
  return semantics::visit_type(
      type, [&]<class T>() { return semantics::visit_function<T>(op, [](auto) {}); });
}

bool is_comparison(ExprOp op) { return op >= ExprOp::eq && op <= ExprOp::ge; }

void require(bool condition, ExprOp op, ExprType type) {
  check(condition, ErrorKind::internal, "expression op {} is not defined for {}", to_string(op),
        to_string(type));
}

}  // namespace

std::string_view to_string(ExprType type) { return kTypeNames[static_cast<size_t>(type)]; }
std::string_view to_string(ExprOp op) { return kOpNames[static_cast<size_t>(op)]; }

bool has_compute_type(ElementType storage) {
  const ElementClass cls = info(storage).cls;
  return cls != ElementClass::complex && cls != ElementClass::string;
}

ExprType compute_type(ElementType storage) {
  switch (info(storage).cls) {
    case ElementClass::floating:
      return storage == ElementType::f64 ? ExprType::f64 : ExprType::f32;
    case ElementClass::signed_int:
      return ExprType::i64;
    case ElementClass::unsigned_int:
      return ExprType::u64;
    case ElementClass::boolean:
      return ExprType::boolean;
    default:
      break;
  }
  fail(ErrorKind::unsupported, "elementwise formulas do not support {}", to_string(storage));
}

Expr Expr::argument(int index, ExprType type) {
  return make(ExprOp::argument, type, {}, static_cast<uint64_t>(index));
}

Expr Expr::constant_from_bits(ExprType type, uint64_t bits) {
  return make(ExprOp::constant, type, {}, bits);
}

Expr Expr::constant(ExprType type, const ExprArg& value) {
  return value.expr() == nullptr ? value.as(type) : convert(*value.expr(), type);
}

Expr ExprArg::as(ExprType type) const {
  check(expr_ == nullptr, ErrorKind::internal, "an expression of type {} is not a number",
        expr_ == nullptr ? "" : to_string(expr_->type()));
  return semantics::visit_type(type, [&]<class T>() {
    T value{};
    bool exact = true;
    if (kind_ == Kind::real) {
      value = semantics::convert<T>(real_);
      exact = semantics::kIsFloat<T> || static_cast<double>(value) == real_;
    } else if (kind_ == Kind::natural) {
      value = semantics::convert<T>(static_cast<uint64_t>(integer_));
      exact = type != ExprType::i32 && (type != ExprType::i64 || integer_ >= 0);
    } else {
      value = semantics::convert<T>(integer_);
      exact = semantics::kIsFloat<T> || type == ExprType::boolean ||
              (static_cast<int64_t>(value) == integer_ && (type != ExprType::u64 || integer_ >= 0));
    }
    check(exact, ErrorKind::internal, "constant {} does not fit the expression type {}",
          kind_ == Kind::real ? fmt::format("{}", real_) : fmt::format("{}", integer_),
          to_string(type));
    return Expr::constant_from_bits(type, bits_from_value(value));
  });
}

Expr Expr::make(ExprOp op, ExprType type, std::vector<Expr> inputs, uint64_t bits) {
  return Expr(std::make_shared<ExprNode>(op, type, std::move(inputs), bits));
}

ExprOp Expr::op() const { return node_->op; }
ExprType Expr::type() const { return node_->type; }
std::span<const Expr> Expr::inputs() const { return node_->inputs; }
int Expr::argument_index() const { return static_cast<int>(node_->bits); }
uint64_t Expr::constant_bits() const { return node_->bits; }

Expr Expr::unary(ExprOp op, ExprType type, const Expr& a) {
  require(function_exists(op, a.type()), op, a.type());
  bool known = false;
  if (a.is_constant()) return constant_from_bits(type, fold_function(op, {&a, 1}, known));
  return make(op, type, {a});
}

Expr Expr::binary(ExprOp op, const ExprArg& a, const ExprArg& b) {
  check(a.expr() != nullptr || b.expr() != nullptr, ErrorKind::internal,
        "{} of two numbers has no type", to_string(op));
  const ExprType type = a.expr() != nullptr ? a.expr()->type() : b.expr()->type();
  const std::array<Expr, 2> inputs{a.expr() != nullptr ? *a.expr() : a.as(type),
                                   b.expr() != nullptr ? *b.expr() : b.as(type)};
  check(inputs[1].type() == type, ErrorKind::internal, "{} of {} and {}: the types must agree",
        to_string(op), to_string(type), to_string(inputs[1].type()));
  require(function_exists(op, type), op, type);
  const ExprType result = is_comparison(op) ? ExprType::boolean : type;
  bool known = false;
  if (all_constant(inputs)) return constant_from_bits(result, fold_function(op, inputs, known));
  return make(op, result, {inputs[0], inputs[1]});
}

Expr operator+(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::add, a, b); }
Expr operator-(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::sub, a, b); }
Expr operator*(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::mul, a, b); }
Expr operator/(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::div, a, b); }
Expr operator-(const Expr& a) { return Expr::unary(ExprOp::neg, a.type(), a); }
Expr abs(const Expr& a) { return Expr::unary(ExprOp::abs, a.type(), a); }
Expr min(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::min, a, b); }
Expr max(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::max, a, b); }
Expr floor(const Expr& a) { return Expr::unary(ExprOp::floor, a.type(), a); }
Expr ceil(const Expr& a) { return Expr::unary(ExprOp::ceil, a.type(), a); }
Expr trunc(const Expr& a) { return Expr::unary(ExprOp::trunc, a.type(), a); }
Expr round_even(const Expr& a) { return Expr::unary(ExprOp::round_even, a.type(), a); }
Expr sqrt(const Expr& a) { return Expr::unary(ExprOp::sqrt, a.type(), a); }
Expr operator==(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::eq, a, b); }
Expr operator!=(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::ne, a, b); }
Expr operator<(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::lt, a, b); }
Expr operator<=(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::le, a, b); }
Expr operator>(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::gt, a, b); }
Expr operator>=(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::ge, a, b); }
Expr operator&(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::bit_and, a, b); }
Expr operator|(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::bit_or, a, b); }
Expr operator^(const ExprArg& a, const ExprArg& b) { return Expr::binary(ExprOp::bit_xor, a, b); }
Expr operator~(const Expr& a) { return Expr::unary(ExprOp::bit_not, a.type(), a); }
Expr operator<<(const ExprArg& a, const ExprArg& amount) {
  return Expr::binary(ExprOp::shift_left, a, amount);
}
Expr operator>>(const ExprArg& a, const ExprArg& amount) {
  return Expr::binary(ExprOp::shift_right, a, amount);
}
Expr is_nan(const Expr& a) { return Expr::unary(ExprOp::is_nan, ExprType::boolean, a); }

Expr operator&&(const ExprArg& a, const ExprArg& b) {
  const Expr result = a & b;
  require(result.type() == ExprType::boolean, ExprOp::bit_and, result.type());
  return result;
}
Expr operator||(const ExprArg& a, const ExprArg& b) {
  const Expr result = a | b;
  require(result.type() == ExprType::boolean, ExprOp::bit_or, result.type());
  return result;
}
Expr operator!(const Expr& a) {
  require(a.type() == ExprType::boolean, ExprOp::bit_not, a.type());
  return ~a;
}

Expr fma(const ExprArg& a, const ExprArg& b, const ExprArg& c) {
  const Expr* typed = a.expr() != nullptr ? a.expr() : b.expr() != nullptr ? b.expr() : c.expr();
  check(typed != nullptr, ErrorKind::internal, "{} of three numbers has no type", "fma");
  const ExprType type = typed->type();
  const auto input = [&](const ExprArg& arg) { return arg.expr() ? *arg.expr() : arg.as(type); };
  const std::array<Expr, 3> inputs{input(a), input(b), input(c)};
  for (const Expr& expr : inputs) {
    check(expr.type() == type, ErrorKind::internal, "fma of {} and {}: the types must agree",
          to_string(type), to_string(expr.type()));
  }
  require(is_floating(type), ExprOp::fma, type);
  bool known = false;
  if (all_constant(inputs)) {
    return Expr::constant_from_bits(type, fold_function(ExprOp::fma, inputs, known));
  }
  return Expr::make(ExprOp::fma, type, {inputs.begin(), inputs.end()});
}

Expr select(const Expr& condition, const ExprArg& a, const ExprArg& b) {
  require(condition.type() == ExprType::boolean, ExprOp::select, condition.type());
  check(a.expr() != nullptr || b.expr() != nullptr, ErrorKind::internal,
        "{} of two numbers has no type", "select");
  const ExprType type = a.expr() != nullptr ? a.expr()->type() : b.expr()->type();
  const Expr yes = a.expr() != nullptr ? *a.expr() : a.as(type);
  const Expr no = b.expr() != nullptr ? *b.expr() : b.as(type);
  check(no.type() == type, ErrorKind::internal, "select of {} and {}: the types must agree",
        to_string(type), to_string(no.type()));
  if (condition.is_constant()) return condition.constant_bits() != 0 ? yes : no;
  return yes.id() == no.id() ? yes : Expr::make(ExprOp::select, type, {condition, yes, no});
}

Expr convert(const Expr& a, ExprType type) {
  if (a.type() == type) return a;
  if (a.is_constant()) return Expr::constant_from_bits(type, fold_convert(a, type));
  return Expr::make(ExprOp::convert, type, {a});
}

Expr bitcast(const Expr& a, ExprType type) {
  if (a.type() == type) return a;
  const auto pairs = [&](ExprType x, ExprType y) {
    return (a.type() == x && type == y) || (a.type() == y && type == x);
  };
  require(pairs(ExprType::f32, ExprType::i32) || pairs(ExprType::f64, ExprType::i64),
          ExprOp::bitcast, a.type());
  if (a.is_constant()) return Expr::constant_from_bits(type, a.constant_bits());
  return Expr::make(ExprOp::bitcast, type, {a});
}

ElementType Formula::element_type(int index) const {
  check(index >= 0 && index < count(), ErrorKind::internal, "a formula reads operand {} of {}",
        index, count());
  return operands_[static_cast<size_t>(index)];
}

}  // namespace lathe
