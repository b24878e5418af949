// SPDX-License-Identifier: MIT
#include "ops/math/real.h"

#include <cmath>

#include "base/error.h"
#include "ops/math.h"
#include "ops/math/coefficients.h"

namespace lathe {

Real::Real(const Expr& x)
    : single(x.type() == ExprType::f32),
      type(x.type()),
      bits(single ? ExprType::i32 : ExprType::i64),
      mantissa(single ? 23 : 52),
      bias(single ? 127 : 1023) {
  check(is_floating(type), ErrorKind::internal,
        "a mathematical function of {}, expected f32 or f64", to_string(type));
}

double Real::epsilon() const { return std::ldexp(1.0, -mantissa); }
double Real::magic() const { return std::ldexp(1.5, mantissa); }

Expr polynomial(const Expr& x, std::span<const double> coefficients) {
  Expr sum = Expr::constant(x.type(), coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, coefficients[i]);
  return sum;
}

Rounded round_to_integer(const Expr& x) {
  const Real real(x);
  const Expr magic = Expr::constant(real.type, real.magic());
  const Expr shifted = x + magic;
  return {shifted - magic, bitcast(shifted, real.bits) - bitcast(magic, real.bits)};
}

Expr integer_to_real(const Expr& integer, const Real& real) {
  const Expr magic = Expr::constant(real.type, real.magic());
  return bitcast(integer + bitcast(magic, real.bits), real.type) - magic;
}

Expr power_of_two(const Expr& k, const Real& real) {
  return bitcast((k + real.bias) << real.mantissa, real.type);
}

Expr scale(const Expr& x, const Expr& k) {
  const Real real(x);
  // The first product is normal and exact: only the second one rounds.
  const Expr half = k >> 1;
  return x * power_of_two(half, real) * power_of_two(k - half, real);
}

ExpArgument reduce_exp(const Expr& x) {
  const Real real(x);
  const auto ln2 = real.choose(coefficients::kLn2F32, coefficients::kLn2F64);
  const Rounded k = round_to_integer(x * (1 / (ln2[0] + ln2[1])));
  return {fma(-k.real, ln2[1], fma(-k.real, ln2[0], x)), k.integer};
}

Expr clamp_exp(const Expr& x) {
  const Real real(x);
  return min(max(x, real.choose(-105, -746)), real.choose(89, 710));
}

Expr exp_near_zero(const Expr& r) { return expm1_near_zero(r) + 1; }

Expr expm1_near_zero(const Expr& r) {
  const auto p = Real(r).choose(coefficients::kExpF32, coefficients::kExpF64);
  return fma(r * r, polynomial(r, p), r);
}

LogArgument reduce_log(const Expr& x) {
  const Real real(x);
  const Expr root_half = Expr::constant(real.type, std::sqrt(0.5));
  const int lift = real.mantissa + 2;
  const Expr denormal = x < std::ldexp(1.0, 1 - real.bias);
  const Expr bits = bitcast(select(denormal, x * std::ldexp(1.0, lift), x), real.bits);
  const Expr k = (bits - bitcast(root_half, real.bits)) >> real.mantissa;
  const Expr unlifted = k - select(denormal, Expr::constant(real.bits, lift), 0);
  return {bitcast(bits - (k << real.mantissa), real.type), integer_to_real(unlifted, real)};
}

Expr copysign(const Expr& x, const Expr& y) {
  const Real real(x);
  const Expr sign = bitcast(y, real.bits) & real.sign_bit();
  return bitcast((bitcast(x, real.bits) & ~real.sign_bit()) | sign, real.type);
}

}  // namespace lathe
