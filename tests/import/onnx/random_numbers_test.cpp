// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/import/onnx/import_support.h"

namespace lathe {
namespace {

using namespace test;
using Floats = std::vector<float>;

Floats run_once(Session& session, std::vector<Box> inputs = {}) {
  return values_of(session.run(inputs).at(0));
}

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments_of(const Floats& values) {
  Moments out;
  for (const float x : values) out.mean += x;
  out.mean /= static_cast<double>(values.size());
  for (const float x : values) out.variance += (x - out.mean) * (x - out.mean);
  out.variance /= static_cast<double>(values.size());
  return out;
}

// The largest distance between the distribution of the values and a continuous one.
template <class F>
double distance_to(Floats values, F&& cumulative) {
  std::ranges::sort(values);
  double out = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double at = cumulative(static_cast<double>(values[i]));
    const double rank = static_cast<double>(i) / static_cast<double>(values.size());
    out = std::max(out, std::abs(at - rank));
  }
  return out;
}

// Kolmogorov and Smirnov: a true sample of this size exceeds the bound once in 10^4.
constexpr int kSamples = 40000;
const double kBound = 2.23 / std::sqrt(double{kSamples});

TEST(RandomNumbers, AreUniform) {
  const Floats values = run_floats(R"(<opset_import: ["" : 22]> g () => (float[200, 200] y) {
      y = RandomUniform <shape = [200, 200], low = -2.0, high = 3.0, seed = 4.0> () })",
                                   {});
  EXPECT_GE(*std::ranges::min_element(values), -2);
  EXPECT_LT(*std::ranges::max_element(values), 3);
  EXPECT_LT(distance_to(values, [](double x) { return (x + 2) / 5; }), kBound);
}

TEST(RandomNumbers, AreNormal) {
  const Floats values = run_floats(R"(<opset_import: ["" : 22]> g (int32[n] x) => (float[n] y) {
      y = RandomNormalLike <mean = 1.0, scale = 2.0> (x) })",
                                   {Box{Tensor(ElementType::i32, {kSamples})}});
  const Moments moments = moments_of(values);
  EXPECT_NEAR(moments.mean, 1, 4 * 2 / std::sqrt(double{kSamples}));
  EXPECT_NEAR(moments.variance, 4, 4 * 4 * std::sqrt(2 / double{kSamples}));
  const auto cumulative = [](double x) { return 0.5 * std::erfc((1 - x) / 2 / std::sqrt(2)); };
  EXPECT_LT(distance_to(values, cumulative), kBound);
}

TEST(RandomNumbers, OfBernoulliHaveTheirProbabilities) {
  Floats p(kSamples, 0.3F);
  p[0] = 0;
  p[1] = 1;
  const Floats values = run_floats(R"(<opset_import: ["" : 22]> g (float[n] x) => (float[n] y) {
      y = Bernoulli(x) })",
                                   {floats({kSamples}, p)});
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 1);
  for (const float x : values) EXPECT_TRUE(x == 0 || x == 1);
  EXPECT_NEAR(moments_of(values).mean, 0.3, 4 * std::sqrt(0.21 / kSamples));
}

TEST(RandomNumbers, OfMultinomialHaveTheirProbabilities) {
  const auto result = run_text(R"(<opset_import: ["" : 22]> g (float[1, 3] x) => (int64[1, n] y) {
      y = Multinomial <sample_size = 40000, dtype = 7, seed = 1.0> (x) })",
                               {floats({1, 3}, {std::log(0.2F), std::log(0.5F), std::log(0.3F)})});
  std::array<double, 3> counts{};
  for (const int64_t at : result.at(0).tensor().elements<int64_t>()) {
    ++counts.at(static_cast<size_t>(at));
  }
  const std::array<double, 3> expected{0.2, 0.5, 0.3};
  for (size_t i = 0; i < 3; ++i) {
    const double error = std::sqrt(expected[i] * (1 - expected[i]) / kSamples);
    EXPECT_NEAR(counts[i] / kSamples, expected[i], 4 * error) << i;
  }
}

constexpr std::string_view kTwoNodes = R"(<opset_import: ["" : 22]> g () => (float[8] both) {
  a = RandomUniform <shape = [4]> ()
  b = RandomUniform <shape = [4]> ()
  both = Concat <axis = 0> (a, b)
})";

TEST(RandomNumbers, DifferBetweenRunsAndNodesAndRepeatInANewSession) {
  const auto plan = compile(import_text(kTwoNodes));
  Session session(plan);
  const Floats first = run_once(session);
  const Floats second = run_once(session);
  std::set<float> distinct(first.begin(), first.end());
  distinct.insert(second.begin(), second.end());
  EXPECT_EQ(distinct.size(), 16);
  Session again(plan);
  EXPECT_EQ(run_once(again), first);
  EXPECT_EQ(run_once(again), second);
}

TEST(RandomNumbers, DependOnTheSeed) {
  const auto with_seed = [](std::string_view a, std::string_view b) {
    return run_floats(fmt::format(R"(<opset_import: ["" : 22]> g () => (float[2] y) {{
        a = RandomNormal <shape = [1], seed = {}> ()
        b = RandomNormal <shape = [1], seed = {}> ()
        y = Concat <axis = 0> (a, b) }})",
                                  a, b),
                      {});
  };
  const Floats equal = with_seed("0.5", "0.5");
  EXPECT_EQ(equal[0], equal[1]);
  const Floats other = with_seed("0.5", "1.5");
  EXPECT_EQ(other[0], equal[0]);
  EXPECT_NE(other[1], other[0]);
}

// Every iteration of the body draws once.
void expect_distinct(std::string_view text, std::vector<Box> inputs, size_t count) {
  Session session(compile(import_text(text)));
  std::set<float> distinct;
  for (int run = 0; run < 2; ++run) {
    for (const float x : run_once(session, inputs)) distinct.insert(x);
  }
  EXPECT_EQ(distinct.size(), 2 * count);
}

TEST(RandomNumbers, DifferBetweenIterationsOfALoop) {
  expect_distinct(R"(<opset_import: ["" : 22]>
      g (int64 n, bool c) => (float[k] all) {
        all = Loop(n, ) <body = b (int64 i, bool go) => (bool go2, float v) {
          go2 = Identity(go)
          v = If(c) <then_branch = t () => (float r) { r = RandomUniform <shape: ints = []> () },
                     else_branch = e () => (float s) { s = RandomNormal <shape: ints = []> () }>
        }>
      })",
                  {integers({}, {5}), boolean(true)}, 5);
}

TEST(RandomNumbers, DifferBetweenIterationsOfAScan) {
  expect_distinct(R"(<opset_import: ["" : 22]> g (float[3, n] x, float y) => (float[n, 3] all) {
        all = Scan(x) <num_scan_inputs = 1, scan_input_axes = [-1], body = b (float[3] v)
            => (float[3] w) {
          u = RandomUniformLike <seed = 2.0> (v)
          w = Add(u, y)
        }>
      })",
                  {floats({3, 4}, Floats(12)), floats({}, {0})}, 12);
}

TEST(RandomNumbers, DifferBetweenElementsOfASequenceMap) {
  expect_distinct(R"(<opset_import: ["" : 22]> g (float[4] x) => (float[4] all) {
        parts = SplitToSequence(x)
        drawn = SequenceMap(parts) <body = b (float[k] v) => (float[k] w) {
          w = RandomUniformLike(v)
        }>
        all = ConcatFromSequence <axis = 0> (drawn)
      })",
                  {floats({4}, Floats(4))}, 4);
}

TEST(RandomNumbers, AreDrawnInFunctionsThatABodyCalls) {
  expect_distinct(R"(<opset_import: ["" : 22, "f" : 1]>
      g (int64 n) => (float[k] all) {
        all = Loop(n, ) <body = b (int64 i, bool go) => (bool go2, float v) {
          go2 = Identity(go)
          v = f.draw()
        }>
      }
      <domain: "f", opset_import: ["" : 22]> draw () => (y) {
        y = RandomUniform <shape: ints = []> ()
      })",
                  {integers({}, {3})}, 3);
}

TEST(RandomNumbers, OfAnIntegerTypeAreInvalid) {
  EXPECT_TRUE(contains(import_error(R"(<opset_import: ["" : 22]> g () => (int32[2] y) {
      y = RandomUniform <shape = [2], dtype = 6> () })"),
                       "dtype is i32, expected a float"));
}

}  // namespace
}  // namespace lathe
