// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/math.h"
#include "ops/math/coefficients.h"
#include "ops/math/real.h"

namespace lathe {
namespace {

// x = quadrant · pi/2 + r + low with |r| slightly above pi/4 at most; the quadrant is modulo 4, in
// its low bits.
struct Angle {
  Expr r;
  Expr low;
  Expr quadrant;
};

// x modulo 4, exactly.
Expr modulo4(const Expr& x) { return fma(-4, round_even(x * 0.25), x); }

// x · 2/pi with 29-bit digits: each product with an f32, and its remainder modulo 4, is exact in
// f64. After subtracting the quadrant the terms add up without cancellation: they are on ever finer
// grids.
Angle reduce_single(const Expr& x) {
  constexpr size_t kLarge = 5;  // terms that can exceed 4
  const Expr wide = convert(x, ExprType::f64);
  std::vector<Expr> terms;
  for (const double digit : coefficients::kTwoOverPiF32) {
    const Expr term = wide * std::ldexp(digit, -29 * static_cast<int>(terms.size()));
    terms.push_back(terms.size() < kLarge ? modulo4(term) : term);
  }
  Expr sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = sum + terms[i];
  const Rounded quarter = round_to_integer(sum);
  Expr fraction = terms[0] - quarter.real;
  for (size_t i = 1; i < terms.size(); ++i) fraction = fraction + terms[i];
  const Expr angle = fraction * coefficients::kHalfPiF64[0];
  const Expr r = convert(angle, ExprType::f32);
  const Expr low = convert(angle - convert(r, ExprType::f64), ExprType::f32);
  return {r, low, convert(quarter.integer, ExprType::i32)};
}

constexpr int kDigitBits = 53;
constexpr size_t kDigits = 5;  // digits that matter for one exponent

// |x| < 2^107 and the digits of 2/pi that matter. Earlier digits contribute multiples of 4: they
// are dropped together with a power of 2^53 of x. Shifting the table by powers of two selects the
// digits.
struct Window {
  Expr x;
  std::vector<Expr> digits;
};
Window choose_digits(const Expr& x) {
  const Real real(x);
  const Expr exponent = ((bitcast(x, real.bits) >> real.mantissa) & 2047) - real.bias;
  // (e - 54) / 53 for e up to 1024.
  const Expr skipped = ((max(exponent, kDigitBits + 1) - (kDigitBits + 1)) * 1237) >> 16;
  std::vector<Expr> digits;
  for (const double digit : coefficients::kTwoOverPiF64) {
    digits.push_back(Expr::constant(real.type, digit));
  }
  for (size_t step = 16; step > 0; step /= 2) {
    const Expr shifted = (skipped & static_cast<int64_t>(step)) != 0;
    const size_t needed = std::min(digits.size(), kDigits + step - 1);
    for (size_t i = 0; i < needed; ++i) {
      const Expr next = i + step < digits.size() ? digits[i + step] : digits[i] * 0;
      digits[i] = select(shifted, next, digits[i]);
    }
    digits.erase(digits.begin() + static_cast<std::ptrdiff_t>(needed), digits.end());
  }
  return {x * power_of_two(skipped * -kDigitBits, real), std::move(digits)};
}

// reduce_single() with each product as a pair of floats; the sum keeps the rounding errors.
Angle reduce_double(const Expr& x) {
  constexpr size_t kLarge = 5;  // terms that can exceed 4
  const Window window = choose_digits(x);
  std::vector<Expr> terms;
  for (size_t i = 0; i < kDigits; ++i) {
    const Expr digit = window.digits[i] * std::ldexp(1.0, -kDigitBits * static_cast<int>(i));
    const Expr product = window.x * digit;
    terms.push_back(product);
    terms.push_back(fma(window.x, digit, -product));
  }
  for (size_t i = 0; i < kLarge; ++i) terms[i] = modulo4(terms[i]);
  Expr sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = sum + terms[i];
  const Rounded quarter = round_to_integer(sum);
  Expr high = terms[0] - quarter.real;
  Expr low = high * 0;
  for (size_t i = 1; i < terms.size(); ++i) {
    if (i >= kLarge) {
      low = low + terms[i];
      continue;
    }
    const Expr next = high + terms[i];
    const Expr taken = next - high;  // rounded part of the term; either may be the larger
    low = low + ((high - (next - taken)) + (terms[i] - taken));
    high = next;
  }
  const auto& half_pi = coefficients::kHalfPiF64;
  const Expr fraction = high + low;
  const Expr rest = low - (fraction - high);
  const Expr r = fraction * half_pi[0];
  const Expr r_low = fma(fraction, half_pi[0], -r);
  return {r, fma(fraction, half_pi[1], fma(rest, half_pi[0], r_low)), quarter.integer};
}

Angle reduce(const Expr& x) { return Real(x).single ? reduce_single(x) : reduce_double(x); }

Expr sin_near_zero(const Angle& angle) {
  const Real real(angle.r);
  const Expr z = angle.r * angle.r;
  const Expr p = polynomial(z, real.choose(coefficients::kSinF32, coefficients::kSinF64));
  return angle.r + fma(angle.r * z, p, angle.low * fma(z, -0.5, 1));
}

Expr cos_near_zero(const Angle& angle) {
  const Real real(angle.r);
  const Expr z = angle.r * angle.r;
  const Expr p = polynomial(z, real.choose(coefficients::kCosF32, coefficients::kCosF64));
  const Expr main = fma(z, -0.5, 1);
  const Expr lost = fma(z, -0.5, 1 - main);
  return main + (lost + fma(z * z, p, -(angle.r * angle.low)));
}

Expr is_odd(const Expr& quadrant) { return (quadrant & 1) != 0; }
Expr negate_if(const Expr& condition, const Expr& y) { return select(condition, -y, y); }

// asin(s) - s for s = sqrt(z) or x, |s| <= 1/2.
Expr asin_tail(const Expr& s, const Expr& z) {
  return s * z * polynomial(z, Real(s).choose(coefficients::kAsinF32, coefficients::kAsinF64));
}

// sqrt(z) and its rounding error.
struct Root {
  Expr s;
  Expr low;
};
Root exact_sqrt(const Expr& z) {
  const Expr s = sqrt(z);
  return {s, select(s > 0, fma(-s, s, z) / (s * 2), 0)};
}

}  // namespace

// At most 1 ulp.
Expr sin(const Expr& x) {
  const Real real(x);
  const Angle angle = reduce(x);
  const Expr y = select(is_odd(angle.quadrant), cos_near_zero(angle), sin_near_zero(angle));
  const Expr tiny = abs(x) < std::ldexp(1.0, -real.mantissa / 2 - 1);
  return select(tiny, x, negate_if((angle.quadrant & 2) != 0, y));
}

// At most 1 ulp.
Expr cos(const Expr& x) {
  const Angle angle = reduce(x);
  const Expr y = select(is_odd(angle.quadrant), sin_near_zero(angle), cos_near_zero(angle));
  return negate_if(((angle.quadrant + 1) & 2) != 0, y);
}

// At most 2.5 ulp: sine, cosine and the division.
Expr tan(const Expr& x) {
  const Real real(x);
  const Angle angle = reduce(x);
  const Expr sine = sin_near_zero(angle), cosine = cos_near_zero(angle);
  const Expr odd = is_odd(angle.quadrant);
  const Expr y = select(odd, -cosine, sine) / select(odd, sine, cosine);
  return select(abs(x) < std::ldexp(1.0, -real.mantissa / 2 - 1), x, y);
}

// Beyond 1/2, pi/2 - 2 asin(sqrt((1 - |x|) / 2)). At most 1 ulp.
Expr asin(const Expr& x) {
  const Real real(x);
  const auto half_pi = real.choose(coefficients::kHalfPiF32, coefficients::kHalfPiF64);
  const Expr a = abs(x);
  const Expr outer = a > 0.5;
  const Expr z = select(outer, (1 - a) * 0.5, a * a);
  const Root root = exact_sqrt(z);
  const Expr s = select(outer, root.s, a);
  const Expr tail = asin_tail(s, z);
  const Expr far = half_pi[0] - root.s * 2;
  const Expr lost = half_pi[0] - far - root.s * 2;
  const Expr above = far + (lost - ((tail + root.low) * 2 - half_pi[1]));
  return copysign(select(outer, above, a + tail), x);
}

// 2 asin(sqrt((1 - x) / 2)) above 1/2, its complement to pi below -1/2. At most 1.5 ulp.
Expr acos(const Expr& x) {
  const Real real(x);
  const auto half_pi = real.choose(coefficients::kHalfPiF32, coefficients::kHalfPiF64);
  const Expr a = abs(x);
  const Expr outer = a > 0.5;
  const Expr z = select(outer, (1 - a) * 0.5, x * x);
  const Root root = exact_sqrt(z);
  const Expr s = select(outer, root.s, x);
  const Expr tail = asin_tail(s, z);
  const Expr inner = half_pi[0] - (x - (half_pi[1] - tail));
  const Expr above = (root.s + (tail + root.low)) * 2;
  const Expr below = (half_pi[0] - (root.s + ((tail + root.low) - half_pi[1]))) * 2;
  return select(outer, select(x > 0, above, below), inner);
}

// Beyond 1, pi/2 - atan(1/x). At most 1.5 ulp.
Expr atan(const Expr& x) {
  const Real real(x);
  const auto half_pi = real.choose(coefficients::kHalfPiF32, coefficients::kHalfPiF64);
  const Expr a = abs(x);
  const Expr outer = a > 1;
  const Expr t = select(outer, 1 / a, a);
  const Expr z = t * t;
  const auto p = real.choose(coefficients::kAtanF32, coefficients::kAtanF64);
  const Expr tail = t * z * polynomial(z, p);
  const Expr far = half_pi[0] - (t + (tail - half_pi[1]));
  return copysign(select(outer, far, t + tail), x);
}

}  // namespace lathe
