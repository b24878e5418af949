// SPDX-License-Identifier: MIT
#include "ops/support/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lathe {
namespace {

int64_t smallest_factor(int64_t n) {
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    if (n % factor == 0) return factor;
  }
  return n;
}

// Unlike operator*, without the cases of infinite and NaN parts.
std::complex<double> times(const std::complex<double>& a, const std::complex<double>& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace

Fourier::Fourier(int64_t length, bool inverse)
    : length_(length),
      inverse_(inverse),
      roots_(static_cast<size_t>(length)),
      scratch_(static_cast<size_t>(length)) {
  const double angle = (inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(length);
  for (size_t k = 0; k < roots_.size(); ++k) {
    roots_[k] = std::polar(1.0, angle * static_cast<double>(k));
  }
}

// y = transform of x[0], x[stride], …: the transforms of the `factor` interleaved parts, combined.
void Fourier::step(const Complex* x, int64_t stride, int64_t length, Complex* y) {
  if (length == 1) {
    *y = *x;
    return;
  }
  const int64_t factor = length % 4 == 0 ? 4 : smallest_factor(length);
  const int64_t part = length / factor;
  for (int64_t p = 0; p < factor; ++p) step(x + p * stride, stride * factor, part, y + p * part);
  if (factor == 4) return combine_4(stride, part, y);
  for (int64_t k = 0; k < length; ++k) {
    Complex sum = y[k % part];
    size_t root = 0;  // p * k * stride, modulo the length
    for (int64_t p = 1; p < factor; ++p) {
      root += static_cast<size_t>(k * stride);
      if (root >= roots_.size()) root -= roots_.size();
      sum += times(y[p * part + k % part], roots_[root]);
    }
    scratch_[static_cast<size_t>(k)] = sum;
  }
  std::copy_n(scratch_.begin(), length, y);
}

// Combines four parts in place.
void Fourier::combine_4(int64_t stride, int64_t part, Complex* y) const {
  const double sign = inverse_ ? 1 : -1;
  for (int64_t k = 0; k < part; ++k) {
    const Complex* root = roots_.data();
    const Complex a = y[k];
    const Complex b = times(y[part + k], root[k * stride]);
    const Complex c = times(y[2 * part + k], root[2 * k * stride]);
    const Complex d = times(y[3 * part + k], root[3 * k * stride]);
    const Complex turned = {-sign * (b - d).imag(), sign * (b - d).real()};
    y[k] = a + c + (b + d);
    y[part + k] = a - c + turned;
    y[2 * part + k] = a + c - (b + d);
    y[3 * part + k] = a - c - turned;
  }
}

void Fourier::run(const std::complex<double>* x, std::complex<double>* y) {
  step(x, 1, length_, y);
  if (!inverse_) return;
  for (int64_t k = 0; k < length_; ++k) y[k] /= static_cast<double>(length_);
}

}  // namespace lathe
