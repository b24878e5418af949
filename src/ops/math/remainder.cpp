// SPDX-License-Identifier: MIT
#include <vector>

#include "ops/math.h"
#include "ops/math/real.h"

namespace lathe {
namespace {

// a modulo b in f64, for a, b >= 0: long division by b 2^(52 j), for decreasing j from the highest
// of the type's range. A quotient below 2^53 is at most one too large, and the remainder by fma is
// exact. A divisor that overflows has quotient 0.
Expr remainder(Expr a, const Expr& b, int steps) {
  std::vector<Expr> divisors{b};
  while (std::ssize(divisors) < steps) divisors.push_back(divisors.back() * 0x1p52);
  for (; !divisors.empty(); divisors.pop_back()) {
    const Expr& divisor = divisors.back();
    const Expr quotient = trunc(a / divisor);
    const Expr rest = fma(-quotient, divisor, a);
    a = select(quotient == 0, a, select(rest < 0, rest + divisor, rest));
  }
  return a;
}

Expr integer_fmod(const Expr& x, const Expr& y) { return x - x / y * y; }

}  // namespace

Expr fmod(const Expr& x, const Expr& y) {
  if (!is_floating(x.type())) return integer_fmod(x, y);
  // Exponents differ by up to 277 in f32 and 2098 in f64.
  const int steps = Real(x).single ? 6 : 41;
  const auto wide = [](const Expr& e) { return convert(abs(e), ExprType::f64); };
  return copysign(convert(remainder(wide(x), wide(y), steps), x.type()), x);
}

Expr mod(const Expr& x, const Expr& y) {
  const Expr rest = fmod(x, y);
  if (x.type() == ExprType::u64) return rest;
  const Expr nonzero = rest != 0;
  const Expr moved = select(nonzero && (rest < 0) != (y < 0), rest + y, rest);
  return is_floating(x.type()) ? select(nonzero, moved, copysign(rest, y)) : moved;
}

}  // namespace lathe
