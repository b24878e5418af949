// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/pool/pooling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

// A random problem with operands in guarded memory, and its naive reference.
class Case {
 public:
  // `max_size`: largest width.
  Case(uint32_t seed, int64_t max_size) : random_(seed * 101 + 7) {
    constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::f16,
                                      ElementType::i8, ElementType::u8};
    PoolingProblem& p = problem;
    p.element = kTypes[pick(0, 4)];
    p.average = pick(0, 1) == 1;
    p.channels_last = pick(0, 1) == 1;
    p.count_include_pad = pick(0, 1) == 1;
    p.channels = pick(0, 3) == 0 ? pick(1, 6 + max_size) : pick(1, 6);
    const int64_t rank = pick(1, 3);
    const bool global = pick(0, 4) == 0;
    for (int64_t i = 3 - rank; i < 3; ++i) {
      p.axes[static_cast<size_t>(i)] = axis(global, i == 2 ? max_size : rank == 3 ? 5 : 12);
    }
    integer_ = p.element == ElementType::i8 || p.element == ElementType::u8;
    if (integer_) {
      p.ratio = static_cast<float>(pick(40, 160)) / 100;
      p.x_zero = static_cast<int32_t>(pick(-3, 3) + (p.element == ElementType::u8 ? 9 : 0));
      p.y_zero = static_cast<int32_t>(pick(0, 5));
    }
    images = pick(1, max_size > 16 ? 3 : 2);
    for (const PoolingAxis& one : p.axes) {
      in_ *= one.input;
      out_ *= one.output;
    }
    x_ = tensor(in_);
    y_ = tensor(out_);
    x = std::make_unique<Guarded>(p.element, images * x_.image);
    std::normal_distribution<double> normal(0, integer_ ? 60 : 1);
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t c = 0; c < p.channels; ++c) {
        for (int64_t i = 0; i < in_; ++i) {
          double value = normal(random_);
          if (integer_) {
            const bool is_signed = p.element == ElementType::i8;
            value = std::clamp(std::nearbyint(value + (is_signed ? 0 : 100)),
                               is_signed ? -128.0 : 0.0, is_signed ? 127.0 : 255.0);
          } else if (pick(0, 400) == 0) {
            value = std::numeric_limits<double>::quiet_NaN();
          }
          x->set(at(x_, n, c, i), value);
        }
      }
    }
  }

  PoolingProblem problem;
  int64_t images = 1;
  std::unique_ptr<Guarded> x;

  // Returns the first difference, or "".
  std::string run(Isa isa, ThreadPool* pool) {
    Guarded y(problem.element, images * y_.image);
    PoolingTensor from = x_, to = y_;
    from.data = x->data();
    to.data = y.data();
    Pooling(problem, isa).run(from, to, images, pool);
    if (!y.guards_hold()) return "memory around y changed";
    std::vector<bool> written(static_cast<size_t>(y.count()));
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t c = 0; c < problem.channels; ++c) {
        for (int64_t i = 0; i < out_; ++i) {
          const double reference = expected(n, c, i), found = y.get(at(y_, n, c, i));
          written[static_cast<size_t>(at(y_, n, c, i))] = true;
          if (!close(found, reference)) {
            return "element " + std::to_string(i) + " of channel " + std::to_string(c) + " is " +
                   std::to_string(found) + ", expected " + std::to_string(reference);
          }
        }
      }
    }
    for (int64_t i = 0; i < y.count(); ++i) {
      if (!written[static_cast<size_t>(i)] && !y.is_fill(i)) return "memory between rows changed";
    }
    return "";
  }

 private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  PoolingAxis axis(bool global, int64_t max_size) {
    PoolingAxis a;
    a.input = pick(1, max_size);
    if (global) {
      a.kernel = a.input;
      return a;
    }
    a.kernel = pick(1, std::min<int64_t>(5, a.input));
    a.stride = pick(1, 3);
    a.dilation = pick(0, 3) == 0 ? 2 : 1;
    a.pad_begin = pick(0, 3);
    a.pad_end = pick(0, 3);
    const int64_t span = (a.kernel - 1) * a.dilation + 1;
    if (span > a.input + a.pad_begin + a.pad_end) a.dilation = a.kernel = 1;
    const int64_t room = a.input + a.pad_begin + a.pad_end - ((a.kernel - 1) * a.dilation + 1);
    a.output = room / a.stride + 1;
    if (room % a.stride != 0 && a.output * a.stride < a.input + a.pad_begin && pick(0, 1) == 1) {
      ++a.output;  // a truncated last window, as with ceil_mode
    }
    return a;
  }
  PoolingTensor tensor(int64_t positions) {
    PoolingTensor t;
    const int64_t more = pick(0, 1) * pick(0, 4);
    t.channel = (problem.channels_last ? problem.channels : positions) + more;
    t.image = (problem.channels_last ? positions : problem.channels) * t.channel;
    return t;
  }
  int64_t at(const PoolingTensor& t, int64_t n, int64_t c, int64_t i) const {
    return n * t.image + (problem.channels_last ? i * t.channel + c : c * t.channel + i);
  }

  double expected(int64_t n, int64_t c, int64_t output) const {
    const auto& axes = problem.axes;
    const int64_t o[3] = {output / axes[2].output / axes[1].output,
                          output / axes[2].output % axes[1].output, output % axes[2].output};
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    int64_t valid = 0, counted = 0;
    for (int64_t k = 0; k < axes[0].kernel * axes[1].kernel * axes[2].kernel; ++k) {
      const int64_t tap[3] = {k / axes[2].kernel / axes[1].kernel,
                              k / axes[2].kernel % axes[1].kernel, k % axes[2].kernel};
      int64_t position = 0;
      bool inside = true, padded = true;
      for (size_t i = 0; i < 3; ++i) {
        const int64_t in = o[i] * axes[i].stride - axes[i].pad_begin + tap[i] * axes[i].dilation;
        inside = inside && in >= 0 && in < axes[i].input;
        padded = padded && in < axes[i].input + axes[i].pad_end;
        position = position * axes[i].input + in;
      }
      counted += padded ? 1 : 0;
      if (!inside) continue;
      ++valid;
      const double value = x->get(at(x_, n, c, position));
      sum += value - (integer_ ? problem.x_zero : 0);
      if (!(value <= largest) && !std::isnan(largest)) largest = value;
    }
    if (!problem.average) return largest;
    const double mean = sum / static_cast<double>(problem.count_include_pad ? counted : valid);
    return integer_ ? mean * static_cast<double>(problem.ratio) + problem.y_zero : mean;
  }

  bool close(double found, double reference) const {
    if (problem.element == ElementType::u8) reference = std::clamp(reference, 0.0, 255.0);
    if (problem.element == ElementType::i8) reference = std::clamp(reference, -128.0, 127.0);
    if (std::isnan(reference)) return integer_ || std::isnan(found);
    if (integer_ && std::isinf(reference)) return true;
    if (!problem.average) return found == reference;
    // Integers are rounded; f32 rounding may move a half either way.
    if (integer_) return std::abs(found - reference) <= 0.5 + 1e-4;
    const double rounding = problem.element == ElementType::bf16  ? 0x1p-8
                            : problem.element == ElementType::f16 ? 0x1p-11
                                                                  : 0;
    return std::abs(found - reference) <= 1e-5 + rounding * std::abs(reference);
  }

  std::mt19937 random_;
  bool integer_ = false;
  int64_t in_ = 1, out_ = 1;
  PoolingTensor x_, y_;
};

TEST(Pooling, RandomProblemsMatchANaiveLoop) {
  ThreadPool pool(2);
  for (int64_t seed = 0; seed < cases(kUsualCases); ++seed) {
    Case c(static_cast<uint32_t>(seed), seed % 19 == 0 ? 70 : 16);
    ASSERT_EQ(Pooling::refuse(c.problem), "");
    const Isa isa = isa_for_case(seed);
    ASSERT_EQ(c.run(isa, &pool), "") << to_string(isa) << ", seed " << seed;
  }
}

TEST(Pooling, RefusalsNameTheReason) {
  PoolingProblem p;
  p.needs_indices = true;
  EXPECT_EQ(Pooling::refuse(p), "indices of the maxima are not supported");
  p.needs_indices = false;
  EXPECT_EQ(Pooling::refuse(p), "");
  p.element = ElementType::i32;
  EXPECT_EQ(Pooling::refuse(p), "elements are i32, expected f32, bf16, f16, i8 or u8");
}

}  // namespace
}  // namespace lathe::cpu::test
