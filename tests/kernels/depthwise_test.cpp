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

// Partial blocks of outputs; partial vectors of channels.
TEST(Depthwise, HandlesOutputRowsOfAnyWidthAndChannelCount) {
  Random random(1);
  int64_t index = 0;
  for (const int64_t channels : {8, 16, 20, 24, 40, 72}) {
    for (const int64_t kernel : {3, 5}) {
      for (int64_t width = 5; width < 34; width += width < 16 ? 1 : 5) {
        for (const ElementType type : kTypes) {
          const Isa isa = isa_for_case(index);
          const ConvRun run(problem_of(type, channels, kernel, 1 + index / 3 % 2, width), isa,
                            random);
          ++index;
          SCOPED_TRACE(fmt::format("{}: {}", to_string(isa), run.text()));
          run.expect_result(ConvForm::depthwise, nullptr);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// y may be the residual itself.
TEST(Depthwise, OutputMayOverwriteTheResidual) {
  Random random(2);
  for (const Isa isa : host_isas()) {
    for (int64_t width = 5; width < 40; width += 3) {
      const ConvProblem p = problem_of(ElementType::f32, 72, 3, 1, width);
      const auto conv = make_convolution(ConvForm::depthwise, p, isa);
      const auto random_values = [&](int64_t count) {
        std::vector<float> v(static_cast<size_t>(count));
        for (float& x : v) x = static_cast<float>(pick(random, -8, 8));
        return v;
      };
      const std::vector<float> x = random_values(4 * width * 72), w = random_values(9 * 72),
                               added = random_values(4 * width * 72);
      std::vector<float> packed(conv->packed_bytes() / 4 + 16), separate(added.size());
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
      run(added.data(), separate.data());
      run(in_place.data(), in_place.data());
      EXPECT_EQ(in_place, separate) << to_string(isa) << ' ' << width;
    }
  }
}

// The fused SiLU has the bits of a separate activation and rounding, also for NaN, infinities and
// denormal results.
TEST(Depthwise, FusedSiluEqualsSiluOfTheAccumulators) {
  Random random(3);
  int64_t index = 0;
  for (const Isa isa : host_isas()) {
    for (const int64_t channels : {16, 32, 40, 80}) {
      for (const int64_t kernel : {3, 5}) {
        for (const int64_t width : {5, 14, 20, 29, 31}) {
          const bool is_bf16 = index % 4 != 0, has_bias = index / 4 % 2 == 0;
          const float a = index % 5 == 0 ? 1.702F : 1;
          ConvProblem p = problem_of(is_bf16 ? ElementType::bf16 : ElementType::f32, channels,
                                     kernel, 1 + index / 2 % 2, width);
          ++index;
          const int64_t taps = kernel * kernel, inputs = 4 * width * channels;
          std::vector<float> x, w, bias;
          for (int64_t i = 0; i < inputs; ++i) {
            const float special[] = {NAN, INFINITY, -INFINITY, 1e30F, -88, -60, -0.0F};
            const int64_t which = pick(random, 0, index % 2 == 0 ? 300 : 6000);
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
          std::vector<float> accumulators(static_cast<size_t>(count)),
              expected(accumulators.size());
          run(ElementType::f32, false, accumulators.data());
          vector_ops(isa).activate(Activation::silu, a, 0, accumulators.data(), expected.data(),
                                   count);
          std::vector<uint16_t> rounded(accumulators.size());
          std::vector<float> y(accumulators.size());
          run(p.x_type, true, is_bf16 ? static_cast<void*>(rounded.data()) : y.data());
          for (size_t i = 0; i < y.size(); ++i) {
            if (is_bf16) {
              y[i] = bf16_to_float(rounded[i]);
              expected[i] = bf16_to_float(float_to_bf16(expected[i]));
            }
            if (std::isnan(expected[i]) && std::isnan(y[i])) continue;
            ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected[i]))
                << to_string(isa) << ' ' << p.text() << ": " << accumulators[i] << " at " << i;
          }
        }
      }
    }
  }
}

// Bias and activation have the bits of separate steps, whether applied in registers, after a store
// or by the common epilogue.
TEST(Depthwise, FusedEpilogueEqualsASeparateOne) {
  Random random(4);
  const auto random_values = [&](int64_t count) {
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) x = static_cast<float>(pick(random, -80, 80)) / 16;
    return v;
  };
  int64_t index = 0;
  for (const Activation function :
       {Activation::relu, Activation::hard_swish, Activation::silu, Activation::gelu}) {
    for (const int64_t channels : {24, 56, 72}) {
      for (int64_t width = 7; width < 30; width += 3, ++index) {
        const Isa isa = isa_for_case(index);
        const int64_t kernel = index % 2 * 2 + 3, stride = index / 2 % 2 + 1;
        const ConvProblem p = problem_of(ElementType::f32, channels, kernel, stride, width);
        const auto conv = make_convolution(ConvForm::depthwise, p, isa);
        const int64_t outputs = p.output_positions() * channels;
        const std::vector<float> x = random_values(4 * width * channels),
                                 bias = random_values(channels),
                                 w = random_values(kernel * kernel * channels);
        std::vector<float> packed(conv->packed_bytes() / 4 + 16), y(static_cast<size_t>(outputs)),
            accumulators(y.size());
        void* aligned = packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) / 4;
        conv->pack({w.data(), ElementType::f32}, aligned, nullptr);
        EpilogueStep steps[2]{
            {EpilogueStep::Kind::add, {bias.data(), ElementType::f32, 0, 1}},
            {EpilogueStep::Kind::activate, {}, function, index % 3 == 0 ? 1.5F : 1.0F}};
        ConvCall call;
        call.x = x.data();
        call.weights = aligned;
        call.y = accumulators.data();
        conv->run(call);
        call.y = y.data();
        call.epilogue.steps = steps;
        conv->run(call);
        for (size_t i = 0; i < accumulators.size(); ++i) accumulators[i] += bias[i % bias.size()];
        vector_ops(isa).activate(function, steps[1].a, 0, accumulators.data(), accumulators.data(),
                                 outputs);
        EXPECT_EQ(y, accumulators)
            << to_string(isa) << ' ' << p.text() << ' ' << static_cast<int>(function);
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
