// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise/depthwise.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "tensor/float_formats.h"
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

// Lines that blocks of outputs fill in parts; channels that fill vectors in parts, one or more.
TEST(Depthwise, HandlesOutputRowsOfAnyWidthAndChannelCount) {
  Random random(1);
  int64_t turn = 0;
  for (const int64_t channels : {8, 16, 20, 24, 40, 72}) {
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
TEST(Depthwise, OutputMayOverwriteTheResidual) {
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

// Finished at once, silu gives the bits of its sums, activated and rounded one after the other;
// among them NaN, infinities and results that are denormals.
TEST(Depthwise, FusedSiluEqualsSiluOfTheAccumulators) {
  Random random(3);
  int64_t turn = 0;
  for (const Isa isa : host_isas()) {
    for (const int64_t channels : {16, 32, 40, 80}) {
      for (const int64_t kernel : {3, 5}) {
        for (const int64_t width : {5, 14, 20, 29, 31}) {
          const bool is_bf16 = turn % 4 != 0, has_bias = turn / 4 % 2 == 0;
          const float a = turn % 5 == 0 ? 1.702F : 1;
          ConvProblem p = problem_of(is_bf16 ? ElementType::bf16 : ElementType::f32, channels,
                                     kernel, 1 + turn / 2 % 2, width);
          ++turn;
          const int64_t taps = kernel * kernel, inputs = 4 * width * channels;
          std::vector<float> x, w, bias;
          for (int64_t i = 0; i < inputs; ++i) {
            const float special[] = {NAN, INFINITY, -INFINITY, 1e30F, -88, -60, -0.0F};
            const int64_t which = pick(random, 0, turn % 2 == 0 ? 300 : 6000);
            x.push_back(which < 7 ? special[which] : static_cast<float>(pick(random, -64, 64)) / 8);
          }
          for (int64_t i = 0; i < taps * channels; ++i)
            w.push_back(static_cast<float>(pick(random, -64, 64)) / 64);
          for (int64_t i = 0; i < channels; ++i)
            bias.push_back(static_cast<float>(pick(random, -300, 300)) / 7);
          std::vector<uint16_t> narrow;
          for (const float v : x) narrow.push_back(float_to_bf16(v));

          const auto run = [&](ElementType out, bool has_silu, void* y) {
            p.y_type = out;
            const auto conv = make_convolution(ConvForm::depthwise, p, isa);
            std::vector<float> packed(conv->packed_bytes() / 4 + 16);
            void* aligned =
                packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) / 4;
            conv->pack({w.data(), ElementType::f32}, aligned, nullptr);
            std::vector<EpilogueStep> steps;
            if (has_bias)
              steps.push_back({EpilogueStep::Kind::add, {bias.data(), ElementType::f32, 0, 1}});
            if (has_silu)
              steps.push_back({EpilogueStep::Kind::activate, {}, Activation::silu, a, 0});
            ConvCall call;
            call.x = is_bf16 ? static_cast<const void*>(narrow.data()) : x.data();
            call.weights = aligned;
            call.y = y;
            call.epilogue.steps = steps;
            call.epilogue.out = out;
            const std::vector<int64_t> images(steps.size());
            call.operand_images = images;
            conv->run(call);
          };
          const int64_t count = output_count(p);
          std::vector<float> sums(static_cast<size_t>(count)), wanted(sums.size());
          run(ElementType::f32, false, sums.data());
          vector_ops(isa).activate(Activation::silu, a, 0, sums.data(), wanted.data(), count);
          std::vector<uint16_t> rounded(sums.size());
          std::vector<float> y(sums.size());
          run(p.x_type, true, is_bf16 ? static_cast<void*>(rounded.data()) : y.data());
          for (size_t i = 0; i < y.size(); ++i) {
            if (is_bf16) {
              y[i] = bf16_to_float(rounded[i]);
              wanted[i] = bf16_to_float(float_to_bf16(wanted[i]));
            }
            if (std::isnan(wanted[i]) && std::isnan(y[i])) continue;
            ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(wanted[i]))
                << to_string(isa) << ' ' << p.text() << ": " << sums[i] << " at " << i;
          }
        }
      }
    }
  }
}

// A bias and a function of sums that end in registers, wait in memory or go through the common
// epilogue give what they give afterwards.
TEST(Depthwise, FusedEpilogueEqualsASeparateOne) {
  Random random(4);
  const auto numbers = [&](int64_t count) {
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) x = static_cast<float>(pick(random, -80, 80)) / 16;
    return v;
  };
  int64_t turn = 0;
  for (const Activation function :
       {Activation::relu, Activation::hard_swish, Activation::silu, Activation::gelu}) {
    for (const int64_t channels : {24, 56, 72}) {
      for (int64_t width = 7; width < 30; width += 3, ++turn) {
        const Isa isa = turn_of(turn);
        const int64_t kernel = turn % 2 * 2 + 3, stride = turn / 2 % 2 + 1;
        const ConvProblem p = problem_of(ElementType::f32, channels, kernel, stride, width);
        const auto conv = make_convolution(ConvForm::depthwise, p, isa);
        const int64_t outputs = p.output_positions() * channels;
        const std::vector<float> x = numbers(4 * width * channels), bias = numbers(channels),
                                 w = numbers(kernel * kernel * channels);
        std::vector<float> packed(conv->packed_bytes() / 4 + 16), y(static_cast<size_t>(outputs)),
            sums(y.size());
        void* aligned = packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) / 4;
        conv->pack({w.data(), ElementType::f32}, aligned, nullptr);
        EpilogueStep steps[2]{
            {EpilogueStep::Kind::add, {bias.data(), ElementType::f32, 0, 1}},
            {EpilogueStep::Kind::activate, {}, function, turn % 3 == 0 ? 1.5F : 1.0F}};
        ConvCall call;
        call.x = x.data();
        call.weights = aligned;
        call.y = sums.data();
        conv->run(call);
        call.y = y.data();
        call.epilogue.steps = steps;
        conv->run(call);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i % bias.size()];
        vector_ops(isa).activate(function, steps[1].a, 0, sums.data(), sums.data(), outputs);
        EXPECT_EQ(y, sums) << to_string(isa) << ' ' << p.text() << ' '
                           << static_cast<int>(function);
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
