// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/thread_pool.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A random layer with its operands, and its naive reference.
class Case {
 public:
  explicit Case(uint32_t seed, int64_t least_hidden = 1) : random_(seed * 31 + 5) {
    const bool large = least_hidden > 1 || seed % 19 == 0;
    problem.cell = static_cast<RecurrentCell>(pick(0, 2));
    problem.input = pick(1, large ? 40 : 12);
    problem.hidden = least_hidden + pick(0, large ? 70 : 18);
    problem.linear_before_reset = pick(0, 1) == 1;
    problem.input_forget = pick(0, 3) == 0;
    problem.clip = pick(0, 3) == 0 ? 0.4F : 0;
    problem.backward = {pick(0, 1) == 1};
    if (pick(0, 2) == 0) problem.backward = {false, true};
    time = pick(1, large ? 9 : 4);
    batch = pick(0, 2) == 0 ? 1 : pick(1, large ? 9 : 5);
    gates_ = Recurrent::gates(problem.cell);
    directions_ = static_cast<int64_t>(problem.backward.size());
    const int64_t h = problem.hidden, rows = gates_ * h;
    x_ = random_values(time * batch * problem.input, 1);
    w_ = random_values(directions_ * rows * problem.input, 0.3);
    r_ = random_values(directions_ * rows * h, 0.2);
    if (pick(0, 3) != 0) b_ = random_values(directions_ * 2 * rows, 0.5);
    if (problem.cell == RecurrentCell::lstm && pick(0, 2) == 0) {
      p_ = random_values(directions_ * 3 * h, 0.5);
    }
    if (pick(0, 1) == 1) h_ = random_values(directions_ * batch * h, 1);
    if (pick(0, 1) == 1) c_ = random_values(directions_ * batch * h, 1);
    for (int64_t b = 0; pick(0, 2) == 0 && b < batch; ++b) {
      lengths_.push_back(static_cast<int32_t>(pick(0, time)));
    }
    if (static_cast<int64_t>(lengths_.size()) != batch) lengths_.clear();
    batch_first_ = pick(0, 1) == 1;
    expect();
  }

  RecurrentProblem problem;
  int64_t time = 1;
  int64_t batch = 1;

  RecurrentWeights weights() const {
    return {w_.data(), r_.data(), b_.empty() ? nullptr : b_.data(),
            p_.empty() ? nullptr : p_.data()};
  }

  // Returns the differences, or "".
  std::string run(const Recurrent& layer, ThreadPool* pool) {
    const int64_t h = problem.hidden;
    Guarded y(ElementType::f32, time * directions_ * batch * h);
    Guarded last_h(ElementType::f32, directions_ * batch * h);
    Guarded last_c(ElementType::f32, directions_ * batch * h);
    RecurrentArguments a;
    a.time = time;
    a.batch = batch;
    std::vector<float> x = x_;
    a.x_time = batch * problem.input;
    a.x_batch = problem.input;
    if (batch_first_) {
      a.x_time = problem.input;
      a.x_batch = time * problem.input;
      for (int64_t t = 0; t < time; ++t) {
        for (int64_t b = 0; b < batch; ++b) {
          std::copy_n(x_.data() + (t * batch + b) * problem.input, problem.input,
                      x.data() + (b * time + t) * problem.input);
        }
      }
    }
    a.x = x.data();
    a.y = reinterpret_cast<float*>(y.data());
    a.y_time = directions_ * batch * h;
    a.y_direction = batch * h;
    a.y_batch = h;
    a.lengths = lengths_.empty() ? nullptr : lengths_.data();
    a.initial_h = h_.empty() ? nullptr : h_.data();
    a.initial_c = c_.empty() ? nullptr : c_.data();
    a.last_h = reinterpret_cast<float*>(last_h.data());
    a.last_c = reinterpret_cast<float*>(last_c.data());
    a.state_direction = batch * h;
    a.state_batch = h;
    layer.run(a, pool);
    bits.assign(y.data(), y.data() + y.count() * 4);
    std::string out = compare("y", y, y_) + compare("h", last_h, last_h_);
    if (problem.cell == RecurrentCell::lstm) out += compare("c", last_c, last_c_);
    return out;
  }

  std::vector<std::byte> bits;  // y of the last run

 private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::vector<float> random_values(int64_t count, double spread) {
    std::normal_distribution<float> normal(0, static_cast<float>(spread));
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = normal(random_);
    return out;
  }
  static std::string compare(const char* name, const Guarded& found,
                             const std::vector<double>& expected) {
    if (!found.guards_hold()) return "memory around a result changed";
    for (int64_t i = 0; i < found.count(); ++i) {
      const double reference = expected[static_cast<size_t>(i)];
      if (!(std::abs(found.get(i) - reference) <= 2e-5 * std::max(1.0, std::abs(reference)))) {
        return std::string(name) + "[" + std::to_string(i) + "] is " +
               std::to_string(found.get(i)) + ", expected " + std::to_string(reference) + "; ";
      }
    }
    return "";
  }

  double at(const std::vector<float>& from, int64_t i) const {
    return from.empty() ? 0 : static_cast<double>(from[static_cast<size_t>(i)]);
  }
  double clipped(double x) const {
    return problem.clip > 0 ? std::clamp<double>(x, -problem.clip, problem.clip) : x;
  }
  double recurrence(int64_t d, int64_t gate, int64_t unit, const std::vector<double>& h) const {
    const int64_t rows = gates_ * problem.hidden, row = d * rows + gate * problem.hidden + unit;
    double sum = at(b_, 2 * d * rows + rows + gate * problem.hidden + unit);
    for (int64_t k = 0; k < problem.hidden; ++k) {
      sum += h[static_cast<size_t>(k)] * at(r_, row * problem.hidden + k);
    }
    return sum;
  }
  double input(int64_t d, int64_t t, int64_t b, int64_t gate, int64_t unit) const {
    const int64_t rows = gates_ * problem.hidden, row = d * rows + gate * problem.hidden + unit;
    double sum = at(b_, 2 * d * rows + gate * problem.hidden + unit);
    for (int64_t k = 0; k < problem.input; ++k) {
      sum += at(x_, (t * batch + b) * problem.input + k) * at(w_, row * problem.input + k);
    }
    return sum;
  }

  void step(int64_t d, int64_t t, int64_t b, std::vector<double>& h, std::vector<double>& c) {
    const int64_t size = problem.hidden;
    std::vector<double> next(h.size()), reset(h.size());
    for (int64_t u = 0; u < size && problem.cell == RecurrentCell::gru; ++u) {
      const auto i = static_cast<size_t>(u);
      reset[i] = sigmoid(clipped(input(d, t, b, 1, u) + recurrence(d, 1, u, h)));
    }
    std::vector<double> scaled(h.size());
    for (size_t i = 0; i < h.size(); ++i) scaled[i] = reset[i] * h[i];
    for (int64_t u = 0; u < size; ++u) {
      const auto i = static_cast<size_t>(u);
      const auto sum = [&](int64_t gate) {
        return input(d, t, b, gate, u) + recurrence(d, gate, u, h);
      };
      const auto hole = [&](int64_t gate, double cell) {
        return p_.empty() ? 0 : at(p_, (d * 3 + gate) * size + u) * cell;
      };
      if (problem.cell == RecurrentCell::rnn) {
        next[i] = std::tanh(clipped(sum(0)));
      } else if (problem.cell == RecurrentCell::gru) {
        const double z = sigmoid(clipped(sum(0)));
        const double r = problem.linear_before_reset ? reset[i] * recurrence(d, 2, u, h)
                                                     : recurrence(d, 2, u, scaled);
        next[i] = (1 - z) * std::tanh(clipped(input(d, t, b, 2, u) + r)) + z * h[i];
      } else {
        const double in = sigmoid(clipped(sum(0) + hole(0, c[i])));
        const double forget =
            problem.input_forget ? 1 - in : sigmoid(clipped(sum(2) + hole(2, c[i])));
        c[i] = forget * c[i] + in * std::tanh(clipped(sum(3)));
        next[i] = sigmoid(clipped(sum(1) + hole(1, c[i]))) * std::tanh(c[i]);
      }
    }
    h = next;
  }

  void expect() {
    const int64_t size = problem.hidden;
    y_.assign(static_cast<size_t>(time * directions_ * batch * size), 0.0);
    for (int64_t d = 0; d < directions_; ++d) {
      for (int64_t b = 0; b < batch; ++b) {
        std::vector<double> h(static_cast<size_t>(size)), c = h;
        for (int64_t u = 0; u < size; ++u) {
          h[static_cast<size_t>(u)] = at(h_, (d * batch + b) * size + u);
          c[static_cast<size_t>(u)] = at(c_, (d * batch + b) * size + u);
        }
        for (int64_t i = 0; i < time; ++i) {
          const int64_t t = problem.backward[static_cast<size_t>(d)] ? time - 1 - i : i;
          if (!lengths_.empty() && t >= lengths_[static_cast<size_t>(b)]) continue;
          step(d, t, b, h, c);
          std::copy(h.begin(), h.end(), y_.begin() + ((t * directions_ + d) * batch + b) * size);
        }
        last_h_.insert(last_h_.end(), h.begin(), h.end());
        last_c_.insert(last_c_.end(), c.begin(), c.end());
      }
    }
  }

  std::mt19937 random_;
  int64_t gates_ = 1;
  int64_t directions_ = 1;
  bool batch_first_ = false;
  std::vector<float> x_, w_, r_, b_, p_, h_, c_;
  std::vector<int32_t> lengths_;
  std::vector<double> y_, last_h_, last_c_;
};

TEST(Recurrent, RandomLayersMatchANaiveLoop) {
  ThreadPool pool(2);
  for (int64_t seed = 0; seed < cases(kUsualCases); ++seed) {
    Case c(static_cast<uint32_t>(seed));
    ASSERT_EQ(Recurrent::refuse(c.problem), "");
    const Isa isa = isa_for_case(seed);
    SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
    ASSERT_EQ(c.run(Recurrent(c.problem, c.weights(), isa), &pool), "");
  }
}

TEST(Recurrent, HasTheSameBitsForAnyThreadCount) {
  ThreadPool one(1), two(2), three(3);
  for (const Isa isa : host_isas()) {
    for (uint32_t seed = 0; seed < 5; ++seed) {
      Case c(seed, 200);
      const Recurrent layer(c.problem, c.weights(), isa);
      ASSERT_EQ(c.run(layer, &one), "");
      const std::vector<std::byte> expected = c.bits;
      for (ThreadPool* pool : {&two, &three}) {
        ASSERT_EQ(c.run(layer, pool), "");
        EXPECT_TRUE(c.bits == expected) << to_string(isa) << ", seed " << seed;
      }
    }
  }
}

TEST(Recurrent, RefusalsNameTheReason) {
  RecurrentProblem p;
  p.input = p.hidden = 8;
  p.activations = {"Sigmoid", "Tanh", "TANH"};
  EXPECT_EQ(Recurrent::refuse(p), "");
  p.activations = {"Sigmoid", "Relu", "Tanh"};
  EXPECT_EQ(Recurrent::refuse(p), "activation 1 is relu, supported: tanh");
  p.activations.clear();
  p.element = ElementType::f16;
  EXPECT_EQ(Recurrent::refuse(p), "element type f16, supported: f32");
}

}  // namespace
}  // namespace lathe::cpu::test
