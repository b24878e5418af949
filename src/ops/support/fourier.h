// SPDX-License-Identifier: MIT
// Discrete Fourier transforms of any length, in f64.
#pragma once

#include <complex>
#include <vector>

namespace lathe {

// Transforms vectors of one length: result k is the sum over n of x[n] exp(-2 pi i k n / length),
// or with the opposite sign and divided by the length if inverse. Cooley-Tukey over the prime
// factors of the length; O(length * sum of its prime factors).
class Fourier {
 public:
  Fourier(int64_t length, bool inverse);
  void run(const std::complex<double>* x, std::complex<double>* y);

 private:
  using Complex = std::complex<double>;
  void step(const Complex* x, int64_t stride, int64_t length, Complex* y);
  void combine_4(int64_t stride, int64_t part, Complex* y) const;
  int64_t length_;
  bool inverse_;
  std::vector<std::complex<double>> roots_;  // exp(-+2 pi i k / length)
  std::vector<std::complex<double>> scratch_;
};

}  // namespace lathe
