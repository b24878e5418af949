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
void Fourier::step(const std::complex<double>* x, int64_t stride, int64_t length,
                   std::complex<double>* y) {
  if (length == 1) {
    *y = *x;
    return;
  }
  const int64_t factor = smallest_factor(length);
  const int64_t part = length / factor;
  for (int64_t p = 0; p < factor; ++p) step(x + p * stride, stride * factor, part, y + p * part);
  for (int64_t k = 0; k < length; ++k) {
    std::complex<double> sum = 0;
    for (int64_t p = 0; p < factor; ++p) {
      sum += y[p * part + k % part] * roots_[static_cast<size_t>(p * k % length * stride)];
    }
    scratch_[static_cast<size_t>(k)] = sum;
  }
  std::copy_n(scratch_.begin(), length, y);
}

void Fourier::run(const std::complex<double>* x, std::complex<double>* y) {
  step(x, 1, length_, y);
  if (!inverse_) return;
  for (int64_t k = 0; k < length_; ++k) y[k] /= static_cast<double>(length_);
}

}  // namespace lathe
