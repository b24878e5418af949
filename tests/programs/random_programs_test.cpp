// SPDX-License-Identifier: MIT
// Random programs: the program of every stage on `ref` beside the imported one, then the plan on
// `cpu`, with three bindings each. Inputs, and the outputs of a second run, end at guard pages.
// RANDOM_PROGRAMS is their number, RANDOM_PROGRAM_SEED the first seed, RANDOM_PROGRAM_SECONDS an
// end before the last one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/print.h"
#include "runtime/verification.h"
#include "tests/support/guard_pages.h"
#include "tests/support/random_inputs.h"
#include "tests/support/random_program.h"

namespace lathe::test {
namespace {

constexpr int kBindings = 3;

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

std::vector<Box> guarded_inputs(const Program& program, const Bindings& bindings,
                                std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<Box> inputs;
  for (const auto& parameter : program.main().parameters()) {
    const Type& type = parameter->type();
    Dims dims = random_box(type, bindings, random).tensor().dims();
    const Tensor input = make_guarded_tensor(type.element, std::move(dims));
    for (float& value : input.elements<float>()) value = normal(random);
    inputs.push_back({input});
  }
  return inputs;
}

// Runs again into memory that ends at guard pages: the same bits.
void run_into_guarded(Session& session, const std::vector<Box>& inputs) {
  const std::vector<Box> expected = session.run(inputs);
  std::vector<Tensor> outputs;
  for (const Box& box : expected) {
    outputs.push_back(make_guarded_tensor(box.tensor().type(), box.tensor().dims()));
  }
  RunOptions options;
  options.outputs = outputs;
  session.run(inputs, options);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor first = expected[i].tensor().dense();
    EXPECT_EQ(std::memcmp(outputs[i].data(), first.data(), static_cast<size_t>(first.byte_size())),
              0)
        << "result " << i << " in memory of the caller";
  }
}

// False if no binding satisfies the program's guards.
bool check_program(uint64_t seed, ThreadPool& pool) {
  std::mt19937_64 random(seed);
  const std::unique_ptr<Program> program = make_random_program(random);
  SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(*program)));
  std::vector<VerificationCase> cases;
  for (int i = 0; i < kBindings; ++i) {
    const std::optional<Bindings> bindings = bind_symbols(*program, random);
    if (!bindings) return false;
    std::string name;
    for (const auto& [symbol, size] : *bindings) name += fmt::format("{} = {} ", symbol, size);
    cases.push_back({name, {guarded_inputs(*program, *bindings, random)}});
  }
  VerificationOptions options;
  options.compile.target = find_target("cpu");
  options.session.pool = &pool;
  options.tolerance = 5e-3;  // a sum of one element may cancel
  const VerificationReport report = verify_program(*program, cases, options);
  for (const StageReport& stage : report.stages) {
    EXPECT_TRUE(stage.passed()) << stage.name << ": " << stage.problem << " after pass '"
                                << stage.bad_pass << "'";
  }
  Session session(compile(program->clone(), options.compile), options.session);
  for (const VerificationCase& each : cases) run_into_guarded(session, each.steps[0]);
  return true;
}

TEST(RandomPrograms, GiveTheSameResultsAtEveryStageAndOnCpu) {
  const uint64_t count = setting("RANDOM_PROGRAMS", 60);
  const uint64_t first = setting("RANDOM_PROGRAM_SEED", 1);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(setting("RANDOM_PROGRAM_SECONDS", 100'000));
  ThreadPool pool(2);
  uint64_t made = 0, checked = 0;
  while (made < count && !HasFailure() && std::chrono::steady_clock::now() < end) {
    try {
      checked += check_program(first + made++, pool) ? 1 : 0;
    } catch (const Error& error) {
      std::mt19937_64 random(first + made - 1);
      ADD_FAILURE() << "seed " << first + made - 1 << ": " << error.what() << "\n"
                    << print(*make_random_program(random));
    }
  }
  std::cout << checked << " of " << made << " random programs had bindings\n";
  EXPECT_GE(checked * 2, made);
}

}  // namespace
}  // namespace lathe::test
