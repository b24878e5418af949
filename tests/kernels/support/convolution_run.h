// SPDX-License-Identifier: MIT
// One convolution with random operands, epilogue and layouts, run between guards and compared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "targets/cpu/kernels/conv/convolution.h"
#include "tests/kernels/support/convolution_case.h"

namespace lathe::cpu::test {

class ConvRun {
 public:
  // Chooses layouts, types of outputs, zero points, and an epilogue.
  ConvRun(const ConvProblem& problem, Isa isa, Random& random);

  const ConvProblem& problem() const { return p_; }
  std::string text() const;
  // Runs the form, checks that nothing around the outputs was touched, and returns them as stored.
  std::vector<std::byte> output(ConvForm form, ThreadPool* pool) const;
  // Runs the form and compares with the plain loop: exactly for integers, and within the form's
  // bound for floats.
  void expect_sums(ConvForm form, ThreadPool* pool) const;

 private:
  double finished(double sum, int64_t i) const;
  std::vector<double> winograd_magnitudes() const;  // what its error is a multiple of

  ConvProblem p_;
  Isa isa_;
  ElementType w_type_;
  std::vector<double> x_, w_;  // as numbers, less their zeros
  std::vector<std::byte> x_memory_, w_memory_;
  std::vector<int32_t> w_zero_, bias_;
  std::vector<float> scale_, residual_;  // per output; per value, as y lies in memory
  int32_t x_zero_ = 0;
  float out_zero_ = 0;
  bool has_bias_ = false, has_residual_ = false, has_relu_ = false;
};

}  // namespace lathe::cpu::test
