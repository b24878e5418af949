// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/convolution_case.h"
#include "tests/kernels/support/convolution_run.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

// A random 3 x 3 convolution; `divisor` reduces its channels and outputs.
ConvProblem square(Random& random, int64_t divisor = 1) {
  ConvProblem p;
  p.batch = pick(random, 1, 2);
  p.channels = pick(random, 1, 40 / divisor);
  p.outputs = pick(random, 1, 70 / divisor);
  for (size_t i = 1; i < 3; ++i) {
    ConvAxis& axis = p.axes[i];
    axis.kernel = 3;
    axis.pad = pick(random, 0, 2);
    axis.input = pick(random, 3, divisor > 1 ? 9 : 19);
    axis.output = axis.input + axis.pad + pick(random, 0, 2) - 2;
  }
  return p;
}

TEST(Winograd, ErrorIsWithinItsBoundInEveryLayoutAndEpilogue) {
  Random random(5);
  for (int64_t i = 0, tried = 0; i < cases(kUsualCases); ++tried) {
    const Isa isa = isa_for_case(tried);
    const ConvForm form = tried / 7 % 2 == 0 ? ConvForm::winograd2 : ConvForm::winograd4;
    ConvRun run(square(random, tried % 53 == 0 ? 1 : 5), isa, random);
    if (!why_not(form, run.problem(), isa).empty()) continue;
    SCOPED_TRACE(run.text());
    run.expect_result(form, nullptr);
    if (HasFailure()) return;
    ++i;
  }
}

// Full-precision f32 values, so that multiplications round.
TEST(Winograd, ErrorIsWithinItsBoundOnRandomValues) {
  Random random(6);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const int m : {2, 4}) {
    double worst = 0;
    for (int i = 0; i < 20; ++i) {
      ConvProblem p = square(random);
      p.batch = 1;
      std::vector<float> x, w, y(static_cast<size_t>(output_count(p)));
      for (int64_t k = 0; k < input_count(p); ++k) x.push_back(uniform(random));
      for (int64_t k = 0; k < weight_count(p); ++k) w.push_back(uniform(random));
      std::vector<double> plain_x(x.size());
      for (int64_t k = 0; k < input_count(p); ++k) {
        const int64_t at = memory_index(p.x_layout, p.channels, p.input_positions(), k);
        plain_x[static_cast<size_t>(k)] = double{x[static_cast<size_t>(at)]};
      }
      const auto expected = naive_convolution(p, plain_x, {w.begin(), w.end()});
      const auto conv = make_convolution(m == 2 ? ConvForm::winograd2 : ConvForm::winograd4, p,
                                         host_isas().back());
      std::vector<std::byte> packed(conv->packed_bytes() + 64);
      void* weights = packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) % 64;
      conv->pack({w.data()}, weights, nullptr);
      ConvCall call;
      call.x = x.data();
      call.weights = weights;
      call.y = y.data();
      conv->run(call);
      for (int64_t k = 0; k < output_count(p); ++k) {
        double sum = 0;
        const int64_t o = k / p.output_positions() % p.outputs;
        for (int64_t j = 0; j < p.channels * 9; ++j)
          sum += std::abs(double{w[static_cast<size_t>(o * p.channels * 9 + j)]});
        const int64_t at = memory_index(p.y_layout, p.outputs, p.output_positions(), k);
        const double error =
            std::abs(double{y[static_cast<size_t>(at)]} - expected[static_cast<size_t>(k)]);
        worst = std::max(worst, error / (std::ldexp(sum, -24)));
      }
    }
    EXPECT_LT(worst, winograd_error(m));
    EXPECT_GT(worst, winograd_error(m) / 100);  // the bound is not vacuous
  }
}

}  // namespace
}  // namespace lathe::cpu::test
