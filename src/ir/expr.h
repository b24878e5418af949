// SPDX-License-Identifier: MIT
// Scalar expressions: the semantics of elementwise ops. An op writes a formula,
//
//   [](const Formula& f) { Expr x = f.x(0); return select(x < 0, x * f.number("alpha"), x); }
//
// `ref` interprets the expression; code generators print it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/element_type.h"

namespace lathe {

// Type in which a node computes. i32 occurs only inside formulas, as the bits of an f32.
enum class ExprType : uint8_t { f32, f64, i32, i64, u64, boolean };

std::string_view to_string(ExprType type);
// f32 for floats of up to 32 bits, i64 or u64 for integers. Unsupported for complex and strings.
ExprType compute_type(ElementType storage);
bool has_compute_type(ElementType storage);
inline bool is_floating(ExprType type) { return type == ExprType::f32 || type == ExprType::f64; }
inline bool is_integer(ExprType type) { return !is_floating(type) && type != ExprType::boolean; }

// Operands and result of a node have one type unless noted. No op traps.
enum class ExprOp : uint8_t {
  argument,
  constant,
  add,  // integers wrap
  sub,
  mul,
  div,  // integers: toward zero; x / 0 = 0; minimum / -1 wraps
  fma,  // a * b + c with one rounding (floats)
  neg,
  abs,
  min,  // NaN if either is NaN; equal operands: the first
  max,
  floor,  // floor … sqrt: floats
  ceil,
  trunc,
  round_even,
  sqrt,
  eq,  // eq … ge: boolean result; false with NaN, except ne
  ne,
  lt,
  le,
  gt,
  ge,
  bit_and,  // bit_and … bit_not: integers; logical on booleans
  bit_or,
  bit_xor,
  bit_not,
  shift_left,   // amounts outside 0 … width-1 shift every bit out
  shift_right,  // fills with the sign for i32 and i64
  select,       // boolean, a, b
  // Float to integer truncates and saturates, NaN becomes 0. Integer to integer wraps. To boolean
  // is x != 0. To float rounds to nearest even.
  convert,
  bitcast,  // f32 <-> i32, f64 <-> i64
  is_nan,   // float to boolean
};
std::string_view to_string(ExprOp op);

class ExprArg;
struct ExprNode;

// Handle to an immutable typed node of a DAG; cheap to copy. Operators also accept numbers, which
// become constants of the other operand's type: `x * 0.5` is f32 for an f32 `x`. Constants fold.
class Expr {
 public:
  static Expr argument(int index, ExprType type);
  // `value` must be exact in an integer type; it is rounded to nearest in f32.
  static Expr constant(ExprType type, const ExprArg& value);
  static Expr constant_from_bits(ExprType type, uint64_t bits);

  ExprOp op() const;
  ExprType type() const;
  std::span<const Expr> inputs() const;
  int argument_index() const;  // argument nodes only
  bool is_constant() const { return op() == ExprOp::constant; }
  uint64_t constant_bits() const;  // constant nodes only; 32-bit types in the low half
  const void* id() const { return node_.get(); }

  friend Expr operator+(const ExprArg& a, const ExprArg& b);
  friend Expr operator-(const ExprArg& a, const ExprArg& b);
  friend Expr operator*(const ExprArg& a, const ExprArg& b);
  friend Expr operator/(const ExprArg& a, const ExprArg& b);
  friend Expr operator-(const Expr& a);
  friend Expr fma(const ExprArg& a, const ExprArg& b, const ExprArg& c);
  friend Expr abs(const Expr& a);
  friend Expr min(const ExprArg& a, const ExprArg& b);
  friend Expr max(const ExprArg& a, const ExprArg& b);
  friend Expr floor(const Expr& a);
  friend Expr ceil(const Expr& a);
  friend Expr trunc(const Expr& a);
  friend Expr round_even(const Expr& a);
  friend Expr sqrt(const Expr& a);
  friend Expr operator==(const ExprArg& a, const ExprArg& b);
  friend Expr operator!=(const ExprArg& a, const ExprArg& b);
  friend Expr operator<(const ExprArg& a, const ExprArg& b);
  friend Expr operator<=(const ExprArg& a, const ExprArg& b);
  friend Expr operator>(const ExprArg& a, const ExprArg& b);
  friend Expr operator>=(const ExprArg& a, const ExprArg& b);
  friend Expr operator&(const ExprArg& a, const ExprArg& b);
  friend Expr operator|(const ExprArg& a, const ExprArg& b);
  friend Expr operator^(const ExprArg& a, const ExprArg& b);
  friend Expr operator~(const Expr& a);
  friend Expr operator&&(const ExprArg& a, const ExprArg& b);  // booleans only, as ||, !
  friend Expr operator||(const ExprArg& a, const ExprArg& b);
  friend Expr operator!(const Expr& a);
  friend Expr operator<<(const ExprArg& a, const ExprArg& amount);
  friend Expr operator>>(const ExprArg& a, const ExprArg& amount);
  friend Expr select(const Expr& condition, const ExprArg& a, const ExprArg& b);
  friend Expr convert(const Expr& a, ExprType type);
  friend Expr bitcast(const Expr& a, ExprType type);
  friend Expr is_nan(const Expr& a);

 private:
  friend struct ExprNode;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  static Expr make(ExprOp op, ExprType type, std::vector<Expr> inputs, uint64_t bits = 0);
  static Expr unary(ExprOp op, ExprType type, const Expr& a);
  static Expr binary(ExprOp op, const ExprArg& a, const ExprArg& b);

  std::shared_ptr<const ExprNode> node_;
};

// A C++ operand: an expression, or a number that takes the other operand's type.
class ExprArg {
 public:
  ExprArg(const Expr& expr) : expr_(&expr) {}  // NOLINT: implicit by design, as those below
  ExprArg(double value) : kind_(Kind::real), real_(value) {}         // NOLINT
  ExprArg(int value) : kind_(Kind::integer), integer_(value) {}      // NOLINT
  ExprArg(int64_t value) : kind_(Kind::integer), integer_(value) {}  // NOLINT
  ExprArg(uint64_t value)
      : kind_(Kind::natural), integer_(static_cast<int64_t>(value)) {}    // NOLINT
  ExprArg(bool value) : kind_(Kind::integer), integer_(value ? 1 : 0) {}  // NOLINT

  const Expr* expr() const { return expr_; }  // null: a number
  Expr as(ExprType type) const;               // numbers only: the constant of that type

 private:
  enum class Kind : uint8_t { expr, real, integer, natural };
  const Expr* expr_ = nullptr;
  Kind kind_ = Kind::expr;
  double real_ = 0;
  int64_t integer_ = 0;
};

// "select(lt(x0, 0), mul(x0, 0.01), x0)"; shared subexpressions come first, as "%0 = exp(x0);
// div(%0, add(%0, 1))".
std::string to_string(const Expr& expr);

// Attribute values of the op that a formula belongs to.
struct FormulaAttributes {
  virtual ~FormulaAttributes() = default;
  virtual double number(std::string_view name) const = 0;
  virtual int64_t integer(std::string_view name) const = 0;
  virtual std::string_view text(std::string_view name) const = 0;
};

// Argument of an op's formula. Operands are converted to their compute types; the result must have
// the compute type of `result_type()`.
class Formula {
 public:
  Formula(std::span<const ElementType> operands, ElementType result,
          const FormulaAttributes& attributes)
      : operands_(operands), result_(result), attributes_(attributes) {}

  int count() const { return static_cast<int>(operands_.size()); }
  Expr x(int index) const { return Expr::argument(index, compute_type(element_type(index))); }
  ExprType type() const { return compute_type(element_type(0)); }
  ElementType element_type(int index) const;
  ElementType result_type() const { return result_; }
  // step(step(x(0), x(1)), x(2)) … over all operands.
  template <class F>
  Expr fold(F&& step) const {
    Expr y = x(0);
    for (int i = 1; i < count(); ++i) y = step(y, x(i));
    return y;
  }

  double number(std::string_view name) const { return attributes_.number(name); }
  int64_t integer(std::string_view name) const { return attributes_.integer(name); }
  bool boolean(std::string_view name) const { return attributes_.integer(name) != 0; }
  std::string_view text(std::string_view name) const { return attributes_.text(name); }

 private:
  std::span<const ElementType> operands_;
  ElementType result_;
  const FormulaAttributes& attributes_;
};

using FormulaFunction = Expr (*)(const Formula&);

}  // namespace lathe
