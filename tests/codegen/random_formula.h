// SPDX-License-Identifier: MIT
// Random formulas of the operations that kernels are generated for.
#pragma once

#include <random>
#include <vector>

#include "ir/expr.h"
#include "ops/math.h"

namespace lathe::codegen::test {

class RandomFormula {
 public:
  RandomFormula(std::mt19937& random, std::vector<Expr> leaves)
      : random_(random), known_(std::move(leaves)) {}

  // A value of this type after `steps` operations.
  Expr make(int steps, ExprType type) {
    for (int i = 0; i < steps; ++i) known_.push_back(step());
    return pick(type);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Recent values with a higher probability, so that formulas are deep as well as wide.
  Expr pick(ExprType type) {
    std::vector<const Expr*> fitting;
    for (const Expr& value : known_) {
      if (value.type() == type) fitting.push_back(&value);
    }
    const int count = static_cast<int>(fitting.size());
    if (count == 0 || below(12) == 0) return literal(type);
    const int back = below(2) == 0 ? below(std::min(count, 3)) : below(count);
    return *fitting[static_cast<size_t>(count - 1 - back)];
  }

  Expr literal(ExprType type) {
    static constexpr double kValues[] = {0, -0.0, 1, -1, 0.5, 3.25, -127, 255, 1e-30, -2.5, kNaN};
    if (type == ExprType::f32) return Expr::constant(type, kValues[below(11)]);
    if (type == ExprType::boolean) return Expr::constant(type, below(2) == 0);
    return Expr::constant(type, below(2) == 0 ? below(40) : -below(70000));
  }

  Expr step() {
    switch (below(14)) {
      case 0:
        return comparison(pick_number());
      case 1:
        return convert(pick_any(), any_type());
      case 2:
        return logic();
      case 3: {
        const ExprType type = any_type();
        return select(pick(ExprType::boolean), pick(type), pick(type));
      }
      case 4:
      case 5:
        return integers();
      case 6:
        return math();
      default:
        return floats();
    }
  }

  ExprType any_type() {
    static constexpr ExprType kTypes[] = {ExprType::f32, ExprType::f32, ExprType::i32,
                                          ExprType::boolean};
    return kTypes[below(4)];
  }
  Expr pick_any() { return pick(any_type()); }
  Expr pick_number() { return pick(below(3) == 0 ? ExprType::i32 : ExprType::f32); }

  Expr comparison(const Expr& a) {
    const Expr b = pick(a.type());
    switch (below(7)) {
      case 0:
        return a == b;
      case 1:
        return a != b;
      case 2:
        return a < b;
      case 3:
        return a <= b;
      case 4:
        return a > b;
      case 5:
        return a >= b;
      default:
        return is_nan(pick(ExprType::f32));
    }
  }

  Expr logic() {
    const Expr a = pick(ExprType::boolean), b = pick(ExprType::boolean);
    switch (below(8)) {
      case 0:
        return a && b;
      case 1:
        return a || b;
      case 2:
        return a ^ b;
      case 3:
        return !a;
      case 4:
        return min(a, b);
      case 5:
        return max(a, b);
      default:
        return comparison(a);
    }
  }

  Expr integers() {
    const Expr a = pick(ExprType::i32), b = pick(ExprType::i32);
    switch (below(14)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * b;
      case 3:
        return min(a, b);
      case 4:
        return max(a, b);
      case 5:
        return a & b;
      case 6:
        return a | b;
      case 7:
        return a ^ b;
      case 8:
        return ~a;
      case 9:
        return -a;
      case 10:
        return abs(a);
      case 11:
        return a << (below(2) == 0 ? b : Expr::constant(ExprType::i32, below(40)));
      case 12:
        return a >> (below(2) == 0 ? b : Expr::constant(ExprType::i32, below(40)));
      default: {
        const Expr x = pick(ExprType::f32);
        return bitcast(select(is_nan(x), 0, x), ExprType::i32);  // a NaN's bits are any
      }
    }
  }

  Expr floats() {
    const Expr a = pick(ExprType::f32), b = pick(ExprType::f32);
    switch (below(16)) {
      case 0:
      case 1:
        return a + b;
      case 2:
        return a - b;
      case 3:
      case 4:
        return a * b;
      case 5:
        return a / b;
      case 6:
      case 7:
        return fma(a, b, pick(ExprType::f32));
      case 8:
        return min(a, b);
      case 9:
        return max(a, b);
      case 10:
        return -a;
      case 11:
        return abs(a);
      case 12:
        return sqrt(abs(a));
      case 13:
        return floor(a);
      case 14:
        return below(2) == 0 ? ceil(a) : trunc(a);
      default:
        return round_even(a);
    }
  }

  Expr math() {
    const Expr a = pick(ExprType::f32);
    switch (below(40)) {
      case 0:
        return exp(a);
      case 1:
        return erf(a);
      case 2:
        return tanh(a);
      case 3:
        return sigmoid(a);
      case 4:
        return log(a);
      case 5:
        return softplus(a);
      default:
        return a * 0.5 + 1;
    }
  }

  std::mt19937& random_;
  std::vector<Expr> known_;
};

}  // namespace lathe::codegen::test
