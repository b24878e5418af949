// SPDX-License-Identifier: MIT
// One convolution with random operands, epilogue and layouts, run in guarded memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "targets/cpu/kernels/conv/convolution.h"
#include "tests/kernels/support/convolution_case.h"

namespace lathe::cpu::test {

class ConvRun {
 public:
  // Picks random layouts, output types, zero points and an epilogue.
  ConvRun(const ConvProblem& problem, Isa isa, Random& random);

  const ConvProblem& problem() const { return p_; }
  std::string text() const;
  // Runs the form, checks that memory around y does not change, and returns the bytes of y.
  std::vector<std::byte> output(ConvForm form, ThreadPool* pool) const;
  // Runs the form and compares with the naive loop: exactly for integers, within the form's error
  // bound for floats.
  void expect_result(ConvForm form, ThreadPool* pool) const;

 private:
  double apply_epilogue(double sum, int64_t i) const;
  std::vector<double> winograd_magnitudes() const;  // its error is proportional to these

  ConvProblem p_;
  Isa isa_;
  ElementType w_type_;
  std::vector<double> x_, w_;  // zero points subtracted
  std::vector<std::byte> x_memory_, w_memory_;
  std::vector<int32_t> w_zero_, bias_;
  std::vector<float> scale_, residual_;  // [output]; [element of y]
  int32_t x_zero_ = 0;
  float out_zero_ = 0;
  bool has_bias_ = false, has_residual_ = false, has_relu_ = false;
};

}  // namespace lathe::cpu::test
