// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "targets/cpu/kernels/convolution.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/convolution_run.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::u8,
                                  ElementType::i8};

ConvProblem problem_of(ElementType type, int64_t channels, int64_t kernel, int64_t stride,
                       int64_t width) {
  ConvProblem p;
  p.x_type = type;
  p.channels = p.outputs = p.groups = channels;
  for (const size_t i : {1, 2}) {
    const int64_t input = i == 1 ? 4 : width;
    p.axes[i] = {input, (input - 1) / stride + 1, kernel, stride, 1, kernel / 2};
  }
  return p;
}

// Lines that blocks of outputs fill in parts; channels that fill vectors in parts, one or two.
TEST(Depthwise, TakesLinesOfAnyWidthAndAnyChannels) {
  Random random(1);
  int64_t turn = 0;
  for (const int64_t channels : {8, 16, 24, 40, 72}) {
    for (const int64_t kernel : {3, 5}) {
      for (int64_t width = 5; width < 34; width += width < 16 ? 1 : 5) {
        for (const ElementType type : kTypes) {
          const Isa isa = turn_of(turn);
          const ConvRun run(problem_of(type, channels, kernel, 1 + turn / 3 % 2, width), isa,
                            random);
          ++turn;
          SCOPED_TRACE(fmt::format("{}: {}", to_string(isa), run.text()));
          run.expect_sums(ConvForm::depthwise, nullptr);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// Outputs may take the place of what is added to them.
TEST(Depthwise, AddsWhatOutputsReplace) {
  Random random(2);
  for (const Isa isa : host_isas()) {
    for (int64_t width = 5; width < 40; width += 3) {
      const ConvProblem p = problem_of(ElementType::f32, 72, 3, 1, width);
      const auto conv = make_convolution(ConvForm::depthwise, p, isa);
      const auto numbers = [&](int64_t count) {
        std::vector<float> v(static_cast<size_t>(count));
        for (float& x : v) x = static_cast<float>(pick(random, -8, 8));
        return v;
      };
      const std::vector<float> x = numbers(4 * width * 72), w = numbers(9 * 72),
                               added = numbers(4 * width * 72);
      std::vector<float> packed(conv->packed_bytes() / 4 + 16), apart(added.size());
      std::vector<float> in_place = added;
      void* aligned = packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) / 4;
      conv->pack({w.data(), ElementType::f32}, aligned, nullptr);
      const auto run = [&](const float* residual, float* y) {
        const EpilogueStep add{EpilogueStep::Kind::add, {residual, ElementType::f32, 72, 1}};
        ConvCall call;
        call.x = x.data();
        call.weights = aligned;
        call.y = y;
        call.epilogue.steps = {&add, 1};
        conv->run(call);
      };
      run(added.data(), apart.data());
      run(in_place.data(), in_place.data());
      EXPECT_EQ(in_place, apart) << to_string(isa) << ' ' << width;
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
