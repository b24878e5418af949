// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/fused_dw_pw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/convolution_case.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

struct Weights {
  std::vector<std::byte> given, packed;
  void* aligned = nullptr;
};

// The fused depthwise + pointwise convolution must have the bits of the two run in sequence.
class FusedRun {
 public:
  FusedRun(Random& random, Isa isa, ElementType type, bool depthwise_first) : isa_(isa) {
    ConvProblem wide;
    wide.batch = pick(random, 1, 3);
    wide.groups = wide.channels = wide.outputs = pick(random, 2, 90);
    for (size_t i = 1; i < 3; ++i) {
      ConvAxis& a = wide.axes[i];
      a.kernel = pick(random, 1, 5);
      a.stride = pick(random, 1, 3);
      a.dilation = pick(random, 1, 2);
      // Some images are narrower than their padding.
      const bool small = pick(random, 0, 4) == 0;
      const int64_t span = (a.kernel - 1) * a.dilation + 1;
      a.pad = small ? span : pick(random, 0, a.kernel - 1);
      a.input = small ? pick(random, 1, 4) : pick(random, 10, 40);
      a.output = (a.input + 2 * a.pad - span) / a.stride + 1;
    }
    wide.x_type = wide.y_type = type;
    ConvProblem point;
    point.batch = wide.batch;
    point.x_type = point.y_type = type;
    if (depthwise_first) {
      point.channels = wide.channels;
      point.outputs = pick(random, 1, 80);
    } else {
      point.channels = pick(random, 1, 40);
      point.outputs = wide.channels;
    }
    for (size_t i = 1; i < 3; ++i)
      point.axes[i].input = point.axes[i].output =
          depthwise_first ? wide.axes[i].output : wide.axes[i].input;
    p_ = depthwise_first ? FusedDwPwProblem{wide, point} : FusedDwPwProblem{point, wide};
    fill(x_, type, input_count(p_.first), random);
    scale_.assign(static_cast<size_t>(std::max(p_.first.outputs, p_.second.outputs)), 1.0F / 512);
    const EpilogueStep scale{EpilogueStep::Kind::mul, {scale_.data(), ElementType::f32, 0, 1}};
    const EpilogueStep bias{EpilogueStep::Kind::add, {scale_.data(), ElementType::f32, 0, 1}};
    constexpr Activation kActivations[] = {Activation::relu, Activation::hard_swish,
                                           Activation::silu, Activation::gelu};
    EpilogueStep activate{EpilogueStep::Kind::activate, {}, kActivations[pick(random, 0, 3)]};
    activate.a = pick(random, 0, 1) == 0 ? 1.0F : 1.5F;
    if (p_.first.is_integer()) steps_.push_back(scale);
    if (pick(random, 0, 3) != 0) steps_.push_back(bias);
    steps_.push_back(activate);
  }

  void expect_same(ThreadPool* pool) {
    ASSERT_EQ(why_not_fused(p_, isa_), "");
    const FusedDwPw fused(p_, isa_);
    const Weights first = weights(fused.first(), p_.first),
                  second = weights(fused.second(), p_.second);
    const auto bytes = [](const ConvProblem& p) {
      return static_cast<size_t>(bytes_for(p.y_type, output_count(p)));
    };
    std::vector<std::byte> middle(bytes(p_.first)), expected(bytes(p_.second)), y(bytes(p_.second));
    FusedDwPwCall call{one(p_.first, x_.data(), first), one(p_.second, middle.data(), second)};
    call.first.y = middle.data();
    call.second.y = expected.data();
    fused.first().run(call.first);
    fused.second().run(call.second);
    call.second.y = y.data();
    call.second.x = nullptr;
    call.first.y = nullptr;
    call.first.pool = pool;
    fused.run(call);
    EXPECT_EQ(y, expected) << p_.first.text() << " and " << p_.second.text();
  }

 private:
  static void fill(std::vector<std::byte>& memory, ElementType type, int64_t count,
                   Random& random) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(pick(random, -100, 100)) / 64;
      uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      if (type == ElementType::bf16) bits >>= 16;
      if (type == ElementType::u8) bits = static_cast<uint32_t>(random());
      for (int64_t b = 0; b < info(type).bits / 8; ++b)
        memory.push_back(static_cast<std::byte>(bits >> (8 * b)));
    }
  }

  Weights weights(const Convolution& conv, const ConvProblem& p) {
    Weights w;
    Random random(7);
    const ElementType type = p.is_integer() ? ElementType::i8 : p.x_type;
    fill(w.given, p.is_integer() ? ElementType::u8 : type, weight_count(p), random);
    w.packed.resize(conv.packed_bytes() + 64);
    w.aligned = w.packed.data() + (64 - reinterpret_cast<uintptr_t>(w.packed.data()) % 64) % 64;
    conv.pack({w.given.data(), type}, w.aligned, nullptr);
    return w;
  }

  ConvCall one(const ConvProblem& p, const void* x, const Weights& w) const {
    ConvCall call;
    call.x = x;
    call.weights = w.aligned;
    call.epilogue.steps = steps_;
    call.epilogue.out = p.y_type;
    call.x_zero = p.is_integer() ? 3 : 0;
    return call;
  }

  Isa isa_;
  FusedDwPwProblem p_;
  std::vector<std::byte> x_;
  std::vector<float> scale_;
  std::vector<EpilogueStep> steps_;
};

TEST(FusedDwPw, HasTheBitsOfItsTwoConvolutions) {
  ThreadPool two(2), five(5);
  ThreadPool* const pools[] = {&two, nullptr, &five, nullptr};
  Random random(8);
  constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::u8};
  for (int64_t i = 0; i < cases(kUsualCases / 4); ++i) {
    const ElementType type = kTypes[i / 2 % 3];
    FusedRun(random, isa_for_case(i / 6), type, i % 2 == 0).expect_same(pools[i / 3 % 4]);
    if (HasFailure()) return;
  }
}

TEST(FusedDwPw, RefusalsNameTheReason) {
  FusedDwPwProblem p;
  p.first.outputs = 8;
  p.second.channels = 4;
  EXPECT_NE(why_not_fused(p, Isa::avx2).find("has 8 outputs of f32"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cpu::test
