// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/causal_conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/thread_pool.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

enum class Layout { channels, rows, transposed_in, transposed_out, strided };

// A random convolution over several sequences, and its naive reference.
class Case {
 public:
  explicit Case(uint32_t seed) : random_(seed * 31 + 7) {
    problem.channels = pick(0, 9) == 0 ? pick(200, 600) : pick(1, 70);
    problem.taps = pick(1, 5);
    problem.dilation = pick(0, 3) == 0 ? pick(2, 3) : 1;
    problem.silu = pick(0, 1) == 1;
    w = random_values(problem.channels * problem.taps);
    if (pick(0, 1) == 1) bias = random_values(problem.channels);
    for (int64_t i = pick(1, 3); i > 0; --i) {
      Sequence s;
      s.rows = pick(0, 4) == 0 ? pick(17, 40) : pick(1, 9);
      s.x = random_values(s.rows * problem.channels);
      if (pick(0, 2) != 0) s.past = random_values(problem.state() * problem.channels);
      sequences.push_back(std::move(s));
    }
  }

  struct Sequence {
    int64_t rows = 0;
    std::vector<float> x;     // [rows, channels]
    std::vector<float> past;  // [channels, state]; empty: zeros
  };
  CausalConvProblem problem;
  std::vector<float> w;
  std::vector<float> bias;
  std::vector<Sequence> sequences;

  // Channel c of the state followed by x, at t.
  double value(const Sequence& s, int64_t t, int64_t c) const {
    const int64_t state = problem.state();
    if (t >= state) return s.x[static_cast<size_t>((t - state) * problem.channels + c)];
    return s.past.empty() ? 0 : s.past[static_cast<size_t>(c * state + t)];
  }
  double expected(const Sequence& s, int64_t t, int64_t c) const {
    double sum = bias.empty() ? 0 : bias[static_cast<size_t>(c)];
    for (int64_t j = 0; j < problem.taps; ++j) {
      sum += w[static_cast<size_t>(c * problem.taps + j)] * value(s, t + j * problem.dilation, c);
    }
    return problem.silu ? sum / (1 + std::exp(-sum)) : sum;
  }

  // Runs each sequence in steps of `part` tokens (0: one step), and stores the results in `bits`.
  // Returns the first difference, or "".
  std::string run(Isa isa, Layout layout, int64_t part, ThreadPool* pool) {
    const CausalConvolution conv(problem, w.data(), bias.empty() ? nullptr : bias.data(), isa);
    bits.clear();
    for (const Sequence& s : sequences) {
      const int64_t state = problem.state() * problem.channels;
      std::vector<Guarded> states;
      Guarded x(ElementType::f32, 3 * s.rows * problem.channels), y = x;
      CausalConvRows rows;
      place(layout, s.rows, rows);
      for (int64_t at = 0; at < s.rows * problem.channels; ++at) {
        const int64_t t = at / problem.channels, c = at % problem.channels;
        x.set(t * rows.x_row + c * rows.x_channel, s.x[static_cast<size_t>(at)]);
      }
      states.emplace_back(ElementType::f32, state);
      for (int64_t i = 0; i < std::ssize(s.past); ++i) {
        states[0].set(i, s.past[static_cast<size_t>(i)]);
      }
      const float* past = s.past.empty() ? nullptr : floats(states[0]);
      for (int64_t t = 0; t < s.rows; t += rows.rows) {
        rows.rows = part == 0 ? s.rows : std::min(part, s.rows - t);
        states.emplace_back(ElementType::f32, state);
        rows.x = floats(x) + t * rows.x_row;
        rows.y = floats(y) + t * rows.y_row;
        rows.past = past;
        rows.present = floats(states.back());
        conv.run({&rows, 1}, pool);
        past = rows.present;
        if (!states.back().guards_hold()) return "memory around a state changed";
      }
      if (!y.guards_hold()) return "memory around y changed";
      if (std::string wrong = compare(s, y, rows, states.back()); !wrong.empty()) return wrong;
    }
    return "";
  }

  std::vector<float> bits;

 private:
  static float* floats(Guarded& memory) { return reinterpret_cast<float*>(memory.data()); }

  void place(Layout layout, int64_t rows, CausalConvRows& to) const {
    const bool x_by_rows = layout == Layout::rows || layout == Layout::transposed_out;
    const bool y_by_rows = layout == Layout::rows || layout == Layout::transposed_in;
    to.x_row = x_by_rows ? 1 : problem.channels;
    to.x_channel = x_by_rows ? rows : 1;
    to.y_row = y_by_rows ? 1 : problem.channels;
    to.y_channel = y_by_rows ? rows : 1;
    if (layout != Layout::strided) return;
    to.x_row = to.y_row = 3 * problem.channels;
    to.x_channel = to.y_channel = 3;
  }

  std::string compare(const Sequence& s, const Guarded& y, const CausalConvRows& rows,
                      const Guarded& present) {
    for (int64_t at = 0; at < s.rows * problem.channels; ++at) {
      const int64_t t = at / problem.channels, c = at % problem.channels;
      const double found = y.get(t * rows.y_row + c * rows.y_channel),
                   reference = expected(s, t, c);
      bits.push_back(static_cast<float>(found));
      if (!(std::abs(found - reference) <= 1e-5 * std::max(1.0, std::abs(reference)))) {
        return testing::PrintToString(found) + " at token " + std::to_string(t) + ", channel " +
               std::to_string(c) + ", expected " + testing::PrintToString(reference);
      }
    }
    for (int64_t i = 0; i < present.count(); ++i) {
      const int64_t c = i / problem.state(), t = i % problem.state();
      if (present.get(i) != value(s, s.rows + t, c)) return "wrong state";
    }
    return "";
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::vector<float> random_values(int64_t count) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = normal(random_);
    return out;
  }

  std::mt19937 random_;
};

TEST(CausalConv, MatchesNaiveLoopsWithTheSameBitsForAnyLayoutAndSplit) {
  ThreadPool pool(2);
  for (int64_t seed = 0; seed < cases(kUsualCases / 4); ++seed) {
    Case c(static_cast<uint32_t>(seed));
    const Isa isa = isa_for_case(seed);
    SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
    ASSERT_EQ(c.run(isa, Layout::channels, 0, nullptr), "");
    const std::vector<float> bits = c.bits;
    for (const Layout layout : {Layout::channels, Layout::rows, Layout::transposed_in,
                                Layout::transposed_out, Layout::strided}) {
      for (const int64_t part : {0, 1, 3}) {
        ASSERT_EQ(c.run(isa, layout, part, &pool), "");
        ASSERT_EQ(c.bits, bits) << "layout " << static_cast<int>(layout) << ", step " << part;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
