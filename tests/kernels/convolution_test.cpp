// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/convolution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/thread_scratch.h"
#include "targets/cpu/kernels/conv/unfolded.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/convolution_case.h"
#include "tests/kernels/support/convolution_run.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::u8,
                                  ElementType::i8};

void expect_random(ConvForm form, uint64_t seed) {
  Random random(seed);
  for (int64_t i = 0, tried = 0; i < cases(kUsualCases); ++tried) {
    ConvLimits limits;
    limits.depthwise = form == ConvForm::depthwise;
    limits.transposed = form == ConvForm::direct;
    limits.work = tried % 19 == 0 ? 1 << 18 : 1 << 13;
    ConvProblem p = random_problem(random, limits);
    p.x_type = kTypes[pick(random, 0, 3)];
    const Isa isa = isa_for_case(tried);
    ConvRun run(p, isa, random);
    if (!why_not(form, run.problem(), isa).empty()) continue;
    SCOPED_TRACE(fmt::format("case {} on {}: {}", tried, to_string(isa), run.text()));
    run.expect_result(form, nullptr);
    if (::testing::Test::HasFailure()) return;
    ++i;
  }
}

TEST(Convolution, DirectMatchesANaiveLoop) { expect_random(ConvForm::direct, 1); }
TEST(Convolution, DepthwiseMatchesANaiveLoop) { expect_random(ConvForm::depthwise, 2); }

// Few outputs: adjacent ones of a row are computed as channels, whether they divide the row or not.
TEST(Convolution, UnfoldedMatchesANaiveLoop) {
  Random random(11);
  // `tried` chooses the instructions: some of them never unfold.
  for (int64_t i = 0, tried = 0; i < cases(200); ++tried) {
    ConvProblem p;
    p.x_type = kTypes[tried % 2];
    p.batch = pick(random, 1, 2);
    p.channels = pick(random, 1, 9);
    p.outputs = pick(random, 1, 9);
    ConvAxis& height = p.axes[1];
    height.kernel = pick(random, 1, 3);
    height.pad = pick(random, 0, 1);
    height.input = pick(random, 2, 4);
    height.output = std::max<int64_t>(1, height.input + 2 * height.pad - height.kernel + 1);
    ConvAxis& width = p.axes[2];
    width.kernel = pick(random, 2, 40);
    width.stride = pick(random, 1, 3);
    width.pad = pick(random, 0, width.kernel / 2);
    width.output = pick(random, 20, 90);
    width.input = (width.output - 1) * width.stride + width.kernel - width.pad;
    const Isa isa = isa_for_case(tried);
    ConvRun run(p, isa, random);
    if (unfolding_of(run.problem(), isa) == 1) continue;
    SCOPED_TRACE(fmt::format("case {} on {}: {}", i, to_string(isa), run.text()));
    EXPECT_EQ(choose_form(run.problem(), isa), ConvForm::unfolded);
    run.expect_result(ConvForm::unfolded, nullptr);
    if (::testing::Test::HasFailure()) return;
    ++i;
  }
}

// Output rows shorter than a tile, equal to one, or several per tile; taps of few channels in one
// k.
TEST(Convolution, HandlesOutputRowsOfAnyWidthAndFewChannels) {
  struct Shape {
    int64_t channels, outputs, kernel, stride, width;
  };
  constexpr Shape kShapes[] = {{32, 40, 3, 1, 7},  {64, 33, 3, 1, 14},  {16, 32, 3, 1, 28},
                               {16, 20, 3, 1, 56}, {32, 64, 3, 2, 15},  {24, 32, 3, 1, 9},
                               {32, 32, 5, 1, 3},  {3, 70, 7, 2, 31},   {3, 32, 3, 2, 40},
                               {1, 5, 5, 1, 20},   {64, 200, 1, 1, 16}, {128, 96, 1, 2, 17},
                               {256, 64, 4, 1, 1}};
  Random random(4);
  int64_t index = 0;
  for (const Shape& s : kShapes) {
    for (const ElementType type : kTypes) {
      for (const Isa isa : host_isas()) {
        ConvProblem p;
        p.channels = s.channels;
        p.outputs = s.outputs;
        const int64_t pad = s.kernel / 2, rows = 3 + index++ % 5;
        const auto axis = [&](int64_t input) {
          return ConvAxis{input, (input - 1) / s.stride + 1, s.kernel, s.stride, 1, pad};
        };
        p.axes[1] = axis(rows);
        p.axes[2] = axis(s.width);
        p.x_type = type;
        ConvRun run(p, isa, random);
        SCOPED_TRACE(fmt::format("{}: {}", to_string(isa), run.text()));
        run.expect_result(ConvForm::direct, nullptr);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// With few channels and outputs, one GEMM covers several output rows and the padding between them.
// Rows of partial tiles, and weights with zero points, use one GEMM per row.
TEST(Convolution, ComputesSeveralOutputRowsOfFewChannelsAtOnce) {
  Random random(9);
  for (int64_t i = 0; i < cases(450); ++i) {
    ConvProblem p;
    constexpr ElementType kMostly[] = {ElementType::u8, ElementType::bf16};
    p.x_type = i % 3 == 0 ? kTypes[i / 3 % 4] : kMostly[i % 3 - 1];
    p.batch = pick(random, 1, 2);
    p.channels = pick(random, 1, 4);
    p.outputs = pick(random, 0, 2) == 0 ? 16 : pick(random, 1, 34);
    const int64_t stride = pick(random, 1, 2);
    for (size_t axis = 1; axis < p.axes.size(); ++axis) {
      ConvAxis& a = p.axes[axis];
      a.kernel = pick(random, 1, 2) * 2 + 1;
      a.stride = pick(random, 0, 3) == 0 ? 3 - stride : stride;
      a.pad = pick(random, 0, 2);
      a.output = axis == 1 ? pick(random, 3, 12) : pick(random, 1, 7) * 4;
      if (pick(random, 0, 5) == 0) ++a.output;
      a.input = std::max<int64_t>(1, (a.output - 1) * a.stride + a.kernel - 2 * a.pad);
    }
    const Isa isa = i % 2 == 0 ? host_isas().back() : isa_for_case(i / 2);
    ConvRun run(p, isa, random);
    SCOPED_TRACE(fmt::format("case {} on {}: {}", i, to_string(isa), run.text()));
    run.expect_result(ConvForm::direct, nullptr);
    if (::testing::Test::HasFailure()) return;
  }
}

// Output rows short enough for im2col; windows partly or entirely in padding.
TEST(Convolution, Im2colHandlesShortOutputRowsOfAnyGeometry) {
  Random random(5);
  for (int64_t i = 0; i < cases(60); ++i) {
    ConvProblem p;
    p.x_type = kTypes[i % 4];
    p.batch = pick(random, 1, 2);
    p.channels = pick(random, 1, 12) * (i % 3 == 0 ? 4 : 1);
    p.outputs = pick(random, 64, 100);
    for (const size_t axis : {1, 2}) {
      ConvAxis& a = p.axes[axis];
      a.kernel = pick(random, 1, 4);
      a.stride = pick(random, 1, 3);
      a.dilation = pick(random, 1, 2);
      a.pad = pick(random, 0, a.kernel * a.dilation);
      a.output = pick(random, 2, 9);
      a.input = pick(random, 1, 9);
    }
    const Isa isa = isa_for_case(i);
    ConvRun run(p, isa, random);
    SCOPED_TRACE(fmt::format("case {} on {}: {}", i, to_string(isa), run.text()));
    run.expect_result(ConvForm::direct, nullptr);
    if (::testing::Test::HasFailure()) return;
  }
}

// Input read in place: the kernel skips taps in padding and splits an output row where the set of
// taps changes. Covers groups, dilation and transposed convolutions.
TEST(Convolution, SkipsTapsInPaddingForAnyGeometry) {
  Random random(7);
  for (int64_t i = 0; i < cases(400);) {
    ConvProblem p;
    p.x_type = kTypes[i % 4];
    p.batch = pick(random, 1, 2);
    p.groups = pick(random, 0, 7) == 0 ? 2 : 1;
    p.transposed = pick(random, 0, 3) == 0;
    p.channels = p.groups * (64 * 8 / info(p.x_type).bits + 4 * pick(random, 0, 2));
    p.outputs = p.groups * pick(random, 1, pick(random, 0, 2) == 0 ? 80 : 20);
    for (size_t axis = pick(random, 0, 4) == 0 ? 0 : 1; axis < p.axes.size(); ++axis) {
      ConvAxis& a = p.axes[axis];
      a.kernel = axis == 0 ? pick(random, 1, 2) : pick(random, 1, 5);
      a.stride = pick(random, 0, 2) == 0 ? 2 : 1;
      a.dilation = pick(random, 0, 7) == 0 ? pick(random, 2, 5) : 1;
      a.pad = pick(random, 0, pick(random, 0, 3) == 0 ? a.kernel * a.dilation : 2);
      a.input = axis == 0 ? pick(random, 1, 2) : pick(random, 2, 12);
      const int64_t max_output =
          p.transposed ? a.input * a.stride + a.kernel : a.input / a.stride + 3;
      a.output = pick(random, (max_output + 1) / 2, max_output);
    }
    const int64_t work = p.output_positions() * p.taps() * p.outputs * p.group_channels();
    if (p.batch * work > 1 << 20) continue;
    const Isa isa = isa_for_case(i / 4);
    ConvRun run(p, isa, random);
    SCOPED_TRACE(fmt::format("case {} on {}: {}", i, to_string(isa), run.text()));
    if (!why_not(ConvForm::direct, run.problem(), isa).empty()) continue;
    run.expect_result(ConvForm::direct, nullptr);
    if (::testing::Test::HasFailure()) return;
    ++i;
  }
}

// Outputs entirely in padding, or of no input channels, are the epilogue of zero.
TEST(Convolution, ReadsNothingForOutputsOfPaddingAlone) {
  Random random(8);
  for (int64_t i = 0; i < cases(100); ++i) {
    ConvProblem p;
    p.x_type = kTypes[i % 4];
    p.channels = pick(random, 0, 3) == 0 ? 0 : 64 * 8 / info(p.x_type).bits;
    p.outputs = pick(random, 0, 9) == 0 ? 0 : pick(random, 1, 100);
    p.transposed = pick(random, 0, 1) == 0;
    for (size_t axis = 1; axis < p.axes.size(); ++axis) {
      ConvAxis& a = p.axes[axis];
      a.kernel = pick(random, 1, 2);
      a.stride = pick(random, 1, 3);
      a.pad = pick(random, 0, 6);
      a.input = pick(random, 1, 6);
      a.output = pick(random, 1, 24);
    }
    const Isa isa = isa_for_case(i / 4);
    ConvRun run(p, isa, random);
    SCOPED_TRACE(fmt::format("case {} on {}: {}", i, to_string(isa), run.text()));
    if (!why_not(ConvForm::direct, run.problem(), isa).empty()) continue;
    run.expect_result(ConvForm::direct, nullptr);
    if (::testing::Test::HasFailure()) return;
  }
}

// Input whose rows share few cache sets is copied, per chunk or before all chunks.
TEST(Convolution, HandlesPointwiseInputWithCacheSetConflicts) {
  constexpr int64_t kRowBytes = 4096;
  Random random(6);
  for (int64_t i = 0; i < cases(12); ++i) {
    ConvProblem p;
    p.x_type = kTypes[i % 4];
    const int64_t stride = pick(random, 0, 2), size = info(p.x_type).bits / 8;
    p.batch = pick(random, 1, 2);
    p.channels = kRowBytes / size >> stride;
    p.outputs = pick(random, 33, pick(random, 0, 7) == 0 ? 300 : 70);
    for (size_t axis = i % 5 == 0 ? 0 : 1; axis < p.axes.size(); ++axis) {
      ConvAxis& a = p.axes[axis];
      const bool is_width = axis == 2;
      a.stride = is_width ? int64_t{1} << stride : pick(random, 1, 2);
      a.pad = pick(random, 0, 1);
      a.input = is_width ? pick(random, 3, 10) * a.stride : pick(random, 1, 2);
      a.output = (a.input + 2 * a.pad - 1) / a.stride + 1;
    }
    const Isa isa = isa_for_case(i / 4);
    ConvRun run(p, isa, random);
    SCOPED_TRACE(fmt::format("case {} on {}: {}", i, to_string(isa), run.text()));
    run.expect_result(ConvForm::direct, nullptr);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Convolution, RefusalsNameTheReason) {
  ConvProblem p;
  p.x_type = ElementType::f64;
  EXPECT_EQ(why_not(ConvForm::direct, p, Isa::avx2), "x is f64, expected f32, bf16, u8 or i8");
  p.x_type = ElementType::f32;
  p.outputs = 2;
  EXPECT_EQ(why_not(ConvForm::depthwise, p, Isa::avx2),
            "not depthwise: 1 groups, 1 channels, 2 outputs");
  EXPECT_EQ(why_not(ConvForm::direct, p, Isa::avx2), "");
  EXPECT_THROW(make_convolution(ConvForm::winograd4, p, Isa::avx2), Error);
}

// Weights of more than a cache: all images are prepared, then read by one chunk after the other.
// Smaller ones: threads prepare images of their own.
TEST(Convolution, ComputesBatchesWithLargeAndSmallWeights) {
  struct Shape {
    int64_t channels, outputs, kernel, stride;
  };
  constexpr Shape kShapes[] = {
      {224, 220, 3, 1}, {96, 40, 3, 2}, {700, 330, 1, 2}, {320, 330, 1, 1}};
  Random random(12);
  for (const Shape& s : kShapes) {
    for (const ElementType type : kTypes) {
      ConvProblem p;
      p.batch = 3;
      p.channels = s.channels;
      p.outputs = s.outputs;
      for (size_t axis = 1; axis < p.axes.size(); ++axis) {
        const int64_t input = axis == 1 ? 5 : 7;
        p.axes[axis] = {input, (input - 1) / s.stride + 1, s.kernel, s.stride, 1, s.kernel / 2};
      }
      p.x_type = type;
      const Isa isa = host_isas().back();
      const ConvRun run(p, isa, random);
      SCOPED_TRACE(fmt::format("{}: {}", to_string(isa), run.text()));
      run.expect_result(ConvForm::direct, nullptr);
      const auto alone = run.output(ConvForm::direct, nullptr);
      for (const int threads : {2, 3}) {
        ThreadPool pool(threads);
        EXPECT_EQ(run.output(ConvForm::direct, &pool), alone) << threads << " threads";
      }
    }
  }
}

// Images of a pointwise convolution are rows of one GEMM, unless an operand is that of each image.
TEST(Convolution, SharesAnOperandBetweenImages) {
  constexpr int64_t kImages = 3, kPositions = 35, kChannels = 24, kOutputs = 40;
  std::vector<float> x(kImages * kPositions * kChannels), w(kOutputs * kChannels),
      residual(kPositions * kOutputs);
  Random random(13);
  for (std::vector<float>* values : {&x, &w, &residual})
    for (float& value : *values) value = static_cast<float>(pick(random, -8, 8));
  for (const Isa isa : host_isas()) {
    const auto run = [&](int64_t images, const float* from, float* to) {
      ConvProblem p;
      p.batch = images;
      p.channels = kChannels;
      p.outputs = kOutputs;
      p.axes[1].input = p.axes[1].output = 5;
      p.axes[2].input = p.axes[2].output = 7;
      const auto convolution = make_convolution(ConvForm::direct, p, isa);
      const ScratchBlock packed(static_cast<int64_t>(convolution->packed_bytes()));
      convolution->pack({w.data(), ElementType::f32, nullptr}, packed.data(), nullptr);
      EpilogueStep add;
      add.kind = EpilogueStep::Kind::add;
      add.operand.data = residual.data();
      add.operand.row_stride = kOutputs;
      add.operand.column_stride = 1;
      const int64_t shared = 0;
      ConvCall call;
      call.x = from;
      call.weights = packed.data();
      call.y = to;
      call.epilogue.steps = {&add, 1};
      call.epilogue.out = ElementType::f32;
      call.operand_images = {&shared, 1};
      convolution->run(call);
    };
    std::vector<float> together(kImages * kPositions * kOutputs), each(together.size());
    run(kImages, x.data(), together.data());
    for (int64_t n = 0; n < kImages; ++n)
      run(1, x.data() + n * kPositions * kChannels, each.data() + n * kPositions * kOutputs);
    EXPECT_EQ(together, each) << to_string(isa);
  }
}

TEST(Convolution, HasTheSameBitsForAnyThreadCount) {
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    const bool depthwise = i % 2 == 0;
    ConvLimits limits;
    limits.depthwise = depthwise;
    limits.work = 1 << 20;
    ConvProblem p = random_problem(random, limits);
    p.x_type = kTypes[pick(random, 0, 3)];
    const Isa isa = host_isas().back();
    ConvRun run(p, isa, random);
    const ConvForm form = depthwise ? ConvForm::depthwise : ConvForm::direct;
    if (!why_not(form, run.problem(), isa).empty()) continue;
    const auto alone = run.output(form, nullptr);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      EXPECT_EQ(run.output(form, &pool), alone) << run.text() << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
