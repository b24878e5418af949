// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include "targets/tuning.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "ir/parse.h"
#include "runtime/tune.h"
#include "tests/support/errors.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

// A product of several tiles and panels, and a convolution for which Winograd is possible.
constexpr std::string_view kText = R"(program "net" stage imported {
  symbol b bound 1..*
  module @main(%x: f32[b, 96], %p: f32[1, 16, 12, 12]) {
    %w = literal f32[96, 200] #0000000000000001
    %v = literal f32[96, 200] #0000000000000002
    %k = literal f32[16, 16, 3, 3] #0000000000000003
    %h = matmul(%x, %w)
    %r = relu(%h)
    %u = matmul(%x, %v)
    %y = mul(%r, %u)
    %c = conv(%p, %k) {pads = [1, 1, 1, 1]}
    return %y as "y", %c as "c"
  }
})";

Tensor numbers(Dims dims, int seed) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = static_cast<float>((i * (2 * seed + 1)) % 37 - 18) / 16.1F;
  }
  return tensor;
}

std::unique_ptr<Program> network() {
  return test::parse_with_made(kText, [](ElementType, Dims dims, uint64_t hash) {
    return numbers(std::move(dims), static_cast<int>(hash));
  });
}

std::vector<Box> inputs_of(int64_t batch) {
  return {Box{numbers({batch, 96}, 4)}, Box{numbers({1, 16, 12, 12}, 5)}};
}

TEST(Tuning, EveryWayToComputeAProductHasTheSameBits) {
  ThreadPool pool(3);
  CompileOptions options;
  options.target = find_target("cpu");
  options.pool = &pool;
  const SessionOptions threads{.pool = &pool};
  Session plain(compile(network(), options), threads);
  options.tuning = std::make_shared<Tuning>("this", 3);
  Session tuned(compile(network(), options), threads);
  for (const int64_t batch : {1, 3, 40, 150}) {
    const std::vector<Box> inputs = inputs_of(batch);
    const std::vector<Box> expected = plain.run(inputs);
    tuned.run(inputs);  // finds the problems
    const int rounds = options.tuning->rounds();
    ASSERT_GT(rounds, 3);
    for (int round = 0; round < rounds; ++round) {
      options.tuning->begin_round(round, true);
      const std::vector<Box> results = tuned.run(inputs);
      EXPECT_TRUE(identical(results[0].tensor(), expected[0].tensor()))
          << batch << " rows, candidate " << round;
      // Winograd rounds otherwise.
      const Tensor &c = results[1].tensor(), &reference = expected[1].tensor();
      for (int64_t i = 0; i < c.count(); ++i) {
        ASSERT_NEAR(c.as<float>()[i], reference.as<float>()[i], 1e-3)
            << "element " << i << ", candidate " << round;
      }
    }
  }
  const TuningReport report = options.tuning->decide();
  EXPECT_EQ(report.problems, 9);  // two products of four sizes; one convolution
  EXPECT_EQ(report.measured, 9);
  EXPECT_GE(report.mean_error, 0);
}

// Problems that a tuning finds in runs of a module.
int problems_of(const std::string& module, std::span<const std::vector<Box>> runs) {
  CompileOptions options;
  options.target = find_target("cpu");
  options.tuning = std::make_shared<Tuning>("this", 1);
  Session session(
      compile(parse_program("program \"net\" stage imported {\n" + module + "\n}\n"), options));
  for (const std::vector<Box>& inputs : runs) session.run(inputs);
  options.tuning->begin_round(0, true);
  for (const std::vector<Box>& inputs : runs) session.run(inputs);
  return options.tuning->decide().problems;
}

TEST(Tuning, ProductsOfActivationsAreProblemsOfAllTheirSizes) {
  std::vector<std::vector<Box>> runs;
  for (const auto& [k, n] : {std::pair{64, 48}, {64, 80}, {96, 80}, {64, 48}}) {
    runs.push_back({Box{numbers({40, k}, 1)}, Box{numbers({k, n}, 2)}});
  }
  EXPECT_EQ(problems_of(R"(symbol k bound 1..*
  symbol n bound 1..*
  module @main(%x: f32[40, k], %w: f32[k, n]) {
    %y = matmul(%x, %w)
    return %y as "y"
  })",
                        runs),
            3);
}

TEST(Tuning, ConvolutionsOfOtherAxesAreOtherProblems) {
  const std::vector<std::vector<Box>> runs{{Box{numbers({1, 16, 3, 3}, 1)}}};
  std::string weights = "0.5";
  for (int i = 1; i < 16 * 16 * 9; ++i) weights += ", 0.5";
  EXPECT_EQ(problems_of(fmt::format(R"(module @main(%x: f32[1, 16, 3, 3]) {{
    %k = literal f32[16, 16, 3, 3] {{{}}}
    %high = conv(%x, %k) {{pads = [0, 0, 2, 0]}}
    %wide = conv(%x, %k) {{pads = [0, 0, 0, 2]}}
    return %high as "high", %wide as "wide"
  }})",
                                    weights),
                        runs),
            2);
}

TEST(Tuning, AChoiceIsTakenFromItsText) {
  const std::array<Candidate, 3> candidates{{{"a"}, {"b"}, {"c", 1.5}}};
  Tuning tuning("this", 2);
  TunedProblem* problem = tuning.problem("p", candidates);
  for (int round = 0; round < 3; ++round) {
    tuning.begin_round(round, true);
    EXPECT_EQ(problem->choice(), round);
    for (const double seconds : {4.0, 1.0, 3.0 - round}) problem->note(seconds);
  }
  // Medians 3, 2 and 1: b is 1.5 times as fast, c three times.
  const TuningReport report = tuning.decide();
  EXPECT_EQ(problem->choice(), 2);
  EXPECT_EQ(report.changed, 1);
  EXPECT_DOUBLE_EQ(report.mean_error, 2);
  EXPECT_TRUE(tuning.differs());

  const std::shared_ptr<Tuning> read = read_tuning(tuning.text(true), "text");
  EXPECT_EQ(read->processor(), "this");
  EXPECT_EQ(read->threads(), 2);
  EXPECT_EQ(read->problem("p", candidates)->choice(), 2);
  // Another version may have other names: they are not taken.
  const std::array<Candidate, 2> fewer{{{"a"}, {"b"}}};
  EXPECT_EQ(read_tuning(tuning.text(false), "text")->problem("p", fewer)->choice(), 0);
  tuning.choose_first();
  EXPECT_EQ(problem->choice(), 0);
  EXPECT_EQ(read_tuning(tuning.text(true), "text")->problem("p", candidates)->choice(), 0);
}

TEST(Tuning, ASmallGainIsNotTaken) {
  const std::array<Candidate, 2> candidates{{{"a"}, {"b", 1.1}}};
  Tuning tuning("this", 1);
  TunedProblem* problem = tuning.problem("p", candidates);
  tuning.begin_round(0, true);
  problem->note(1.05);
  tuning.begin_round(1, true);
  problem->note(1.0);
  tuning.decide();
  EXPECT_EQ(problem->choice(), 0);
  EXPECT_FALSE(tuning.differs());
}

TEST(Tuning, TextsThatAreNoChoicesAreErrors) {
  for (const char* text : {"", "[]", "{}", R"({"processor": "x", "threads": 1})",
                           R"({"processor": "x", "threads": "1", "choices": {}})",
                           R"({"processor": "x", "threads": 1, "choices": {"p": 3}})"}) {
    EXPECT_THROW(read_tuning(text, "file"), Error) << text;
  }
}

}  // namespace
}  // namespace lathe
#endif
