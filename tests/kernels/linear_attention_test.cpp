// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/linear_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/thread_pool.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

// Random heads over several sequences, and their naive reference.
class Case {
 public:
  explicit Case(uint32_t seed) : random_(seed * 31 + 11) {
    p.gated = pick(0, 3) != 0;
    p.delta = pick(0, 3) != 0;
    p.key_heads = pick(1, 2);
    p.states = p.key_heads * pick(1, 2);
    p.query_heads = pick(0, 1) == 0 ? p.states * pick(1, 3) : p.key_heads;
    p.outputs = std::max(p.query_heads, p.states);
    p.keys = pick(0, 4) == 0 ? pick(60, 130) : pick(1, 20);
    p.values = pick(0, 4) == 0 ? pick(60, 140) : pick(1, 40);
    p.decay_by_key = p.gated && pick(0, 1) == 1;
    p.one_beta = p.delta && pick(0, 2) == 0;
    p.scale = 0.3F;
    for (int64_t i = pick(1, 3); i > 0; --i) {
      Sequence s;
      s.tokens = pick(1, 12);
      s.q = random_values(s.tokens * p.query_heads * p.keys, 0.5);
      s.k = random_values(s.tokens * p.key_heads * p.keys,
                          1 / std::sqrt(static_cast<double>(p.keys)));
      s.v = random_values(s.tokens * p.states * p.values, 1);
      if (p.gated) s.decay = random_values(s.tokens * decays(), 0.5);
      for (float& g : s.decay) g = -std::abs(g);
      if (p.delta) s.beta = random_values(s.tokens * betas(), 0.5);
      if (pick(0, 2) != 0) s.past = random_values(p.states * p.keys * p.values, 1);
      expect(s);
      sequences.push_back(std::move(s));
    }
  }

  struct Sequence {
    int64_t tokens = 0;
    std::vector<float> q, k, v, decay, beta, past;
    std::vector<double> y, present;
  };
  LinearAttentionProblem p;
  std::vector<Sequence> sequences;

  // Runs all sequences in steps of `part` tokens (0: one step), and stores the results in `bits`.
  // Returns the first difference, or "".
  std::string run(Isa isa, int64_t part, ThreadPool* pool) {
    std::vector<Guarded> states, results;
    std::vector<LinearAttentionRows> rows(sequences.size());
    for (const Sequence& s : sequences) {
      results.emplace_back(ElementType::f32, s.tokens * p.outputs * p.values);
    }
    states.reserve(sequences.size() * 20);
    for (int64_t t = 0, left = 1; left > 0; t += part) {
      std::vector<LinearAttentionRows> step;
      left = 0;
      for (size_t i = 0; i < sequences.size(); ++i) {
        const Sequence& s = sequences[i];
        if (t >= s.tokens) continue;
        LinearAttentionRows& x = rows[i];
        const float* past = t == 0 ? (s.past.empty() ? nullptr : s.past.data()) : x.present;
        x = rows_of(s, t, results[i]);
        x.tokens = part == 0 ? s.tokens : std::min(part, s.tokens - t);
        x.past = past;
        states.emplace_back(ElementType::f32, p.states * p.keys * p.values);
        x.present = reinterpret_cast<float*>(states.back().data());
        step.push_back(x);
        left += part == 0 ? 0 : s.tokens - t;
      }
      run_linear_attention(p, step, isa, pool);
      if (part == 0) break;
    }
    return compare(results, rows, states);
  }

  std::vector<float> bits;

 private:
  int64_t decays() const { return p.states * (p.decay_by_key ? p.keys : 1); }
  int64_t betas() const { return p.one_beta ? 1 : p.states; }

  LinearAttentionRows rows_of(const Sequence& s, int64_t t, Guarded& y) const {
    LinearAttentionRows x;
    x.q_stride = p.query_heads * p.keys;
    x.k_stride = p.key_heads * p.keys;
    x.v_stride = p.states * p.values;
    x.decay_stride = decays();
    x.beta_stride = betas();
    x.y_stride = p.outputs * p.values;
    x.q = s.q.data() + t * x.q_stride;
    x.k = s.k.data() + t * x.k_stride;
    x.v = s.v.data() + t * x.v_stride;
    if (p.gated) x.decay = s.decay.data() + t * x.decay_stride;
    if (p.delta) x.beta = s.beta.data() + t * x.beta_stride;
    x.y = reinterpret_cast<float*>(y.data()) + t * x.y_stride;
    return x;
  }

  // The reference, in f64.
  void expect(Sequence& s) const {
    s.y.assign(static_cast<size_t>(s.tokens * p.outputs * p.values), 0);
    s.present.assign(s.past.begin(), s.past.end());
    s.present.resize(static_cast<size_t>(p.states * p.keys * p.values), 0);
    const auto at = [](const std::vector<float>& from, int64_t i) {
      return static_cast<double>(from[static_cast<size_t>(i)]);
    };
    for (int64_t t = 0; t < s.tokens; ++t) {
      for (int64_t h = 0; h < p.states; ++h) {
        double* state = s.present.data() + h * p.keys * p.values;
        const int64_t k = (t * p.key_heads + h * p.key_heads / p.states) * p.keys;
        for (int64_t j = 0; j < p.values; ++j) {
          double known = 0;
          for (int64_t i = 0; i < p.keys; ++i) {
            if (p.gated) {
              state[i * p.values + j] *=
                  std::exp(at(s.decay, t * decays() + (p.decay_by_key ? h * p.keys + i : h)));
            }
            known += at(s.k, k + i) * state[i * p.values + j];
          }
          double learned = at(s.v, (t * p.states + h) * p.values + j);
          if (p.delta) {
            learned = at(s.beta, t * betas() + (p.one_beta ? 0 : h)) * (learned - known);
          }
          for (int64_t i = 0; i < p.keys; ++i) state[i * p.values + j] += at(s.k, k + i) * learned;
        }
      }
      for (int64_t out = 0; out < p.outputs; ++out) {
        const double* state = s.present.data() + out / (p.outputs / p.states) * p.keys * p.values;
        const int64_t q = (t * p.query_heads + out * p.query_heads / p.outputs) * p.keys;
        for (int64_t j = 0; j < p.values; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < p.keys; ++i) sum += at(s.q, q + i) * state[i * p.values + j];
          s.y[static_cast<size_t>((t * p.outputs + out) * p.values + j)] =
              sum * static_cast<double>(p.scale);
        }
      }
    }
  }

  std::string compare(const std::vector<Guarded>& results,
                      const std::vector<LinearAttentionRows>& rows,
                      const std::vector<Guarded>& states) {
    bits.clear();
    for (const Guarded& state : states) {
      if (!state.guards_hold()) return "memory around a state changed";
    }
    const auto near = [](double found, double reference) {
      return std::abs(found - reference) <= 2e-4 * std::max(1.0, std::abs(reference));
    };
    for (size_t s = 0; s < sequences.size(); ++s) {
      if (!results[s].guards_hold()) return "memory around y changed";
      for (int64_t i = 0; i < results[s].count(); ++i) {
        const double found = results[s].get(i), reference = sequences[s].y[static_cast<size_t>(i)];
        bits.push_back(static_cast<float>(found));
        if (!near(found, reference)) {
          return testing::PrintToString(found) + ", expected " + testing::PrintToString(reference);
        }
      }
      for (int64_t i = 0; i < p.states * p.keys * p.values; ++i) {
        bits.push_back(rows[s].present[i]);
        if (!near(static_cast<double>(rows[s].present[i]),
                  sequences[s].present[static_cast<size_t>(i)])) {
          return "wrong state";
        }
      }
    }
    return "";
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::vector<float> random_values(int64_t count, double spread) {
    std::normal_distribution<float> normal(0, static_cast<float>(spread));
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = normal(random_);
    return out;
  }

  std::mt19937 random_;
};

TEST(LinearAttention, MatchesNaiveLoopsWithTheSameBitsForAnySplit) {
  ThreadPool pool(2);
  for (int64_t seed = 0; seed < cases(kUsualCases / 4); ++seed) {
    Case c(static_cast<uint32_t>(seed));
    const Isa isa = isa_for_case(seed);
    SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
    ASSERT_EQ(c.run(isa, 0, nullptr), "");
    const std::vector<float> bits = c.bits;
    for (const int64_t part : {0, 1, 5}) {
      ASSERT_EQ(c.run(isa, part, &pool), "");
      ASSERT_EQ(c.bits, bits) << "step " << part;
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
