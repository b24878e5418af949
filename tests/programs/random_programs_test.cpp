// SPDX-License-Identifier: MIT
// Random programs: the program of every stage on `ref` beside the imported one, then the plan on
// `cpu`, with three bindings each. Inputs, and the outputs of a second run, end at guard pages.
// RANDOM_PROGRAMS is their number, RANDOM_PROGRAM_SEED the first seed, RANDOM_PROGRAM_SECONDS an
// end before the last one, in seconds of processor time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/builder.h"
#include "ir/print.h"
#include "runtime/nudged.h"
#include "runtime/verification.h"
#include "targets/compile.h"
#include "tests/support/guard_pages.h"
#include "tests/support/random_inputs.h"
#include "tests/support/random_program.h"

namespace lathe::test {
namespace {

constexpr int kBindings = 3;
constexpr double kFault = 1e-3;

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

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

std::vector<Box> run_as_written(const Program& program, const std::vector<Box>& inputs) {
  return Session(compile_as_written(program.clone())).run(inputs);
}

double largest(const Tensor& tensor) {
  double out = 0;
  for (const float value : tensor.dense().elements<float>()) {
    if (std::isfinite(value)) out = std::max(out, std::abs(static_cast<double>(value)));
  }
  return out;
}

double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = a.dense(), y = b.dense();
  double out = 0;
  for (int64_t i = 0; i < y.count(); ++i) {
    const double apart = std::abs(static_cast<double>(x.as<float>()[i]) - y.as<float>()[i]);
    if (std::isfinite(apart)) out = std::max(out, apart);
  }
  return out;
}

// Sets how far rounding alone moves each result. Returns for how many that is more than usual.
int64_t set_roundings(const Program& program, std::vector<VerificationCase>& cases) {
  const std::unique_ptr<Program> nudged[] = {make_nudged(program, 1), make_nudged(program, 2)};
  int64_t moved = 0;
  for (VerificationCase& each : cases) {
    const std::vector<Box> expected = run_as_written(program, each.steps[0]);
    each.roundings.resize(expected.size());
    for (const auto& other : nudged) {
      const std::vector<Box> results = run_as_written(*other, each.steps[0]);
      for (size_t i = 0; i < results.size(); ++i) {
        const double apart = kOrders * distance(results[i].tensor(), expected[i].tensor());
        each.roundings[i] = std::max(each.roundings[i], apart);
      }
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor& result = expected[i].tensor();
      moved += each.roundings[i] > usual_error(result.type()) * largest(result) ? 1 : 0;
    }
  }
  return moved;
}

// A random program and random inputs.
struct Sample {
  std::unique_ptr<Program> program;
  std::vector<VerificationCase> cases;  // none if no binding satisfies the program's guards
  int64_t moved = 0;
};

Sample make_sample(uint64_t seed) {
  std::mt19937_64 random(seed);
  Sample sample{make_random_program(random), {}};
  for (int i = 0; i < kBindings; ++i) {
    const std::optional<Bindings> bindings = bind_symbols(*sample.program, random);
    if (!bindings) {
      sample.cases.clear();
      return sample;
    }
    std::string name;
    for (const auto& [symbol, size] : *bindings) name += fmt::format("{} = {} ", symbol, size);
    sample.cases.push_back({name, {guarded_inputs(*sample.program, *bindings, random)}});
  }
  sample.moved = set_roundings(*sample.program, sample.cases);
  return sample;
}

VerificationOptions on_cpu() {
  VerificationOptions options;
  options.compile.target = find_target("cpu");
  options.tolerance = usual_error(ElementType::f32);  // rounding to 16 bits changes nothing
  return options;
}

void check_sample(const Sample& sample, ThreadPool& pool) {
  VerificationOptions options = on_cpu();
  options.session.pool = &pool;
  const VerificationReport report = verify_program(*sample.program, sample.cases, options);
  for (const StageReport& stage : report.stages) {
    EXPECT_TRUE(stage.passed()) << stage.name << ": " << stage.problem << " after pass '"
                                << stage.bad_pass << "'";
  }
  Session session(compile(sample.program->clone(), options.compile), options.session);
  for (const VerificationCase& each : sample.cases) run_into_guarded(session, each.steps[0]);
}

TEST(RandomPrograms, GiveTheSameResultsAtEveryStageAndOnCpu) {
  const uint64_t count = setting("RANDOM_PROGRAMS", 60);
  const uint64_t first = setting("RANDOM_PROGRAM_SEED", 1);
  const double seconds = static_cast<double>(setting("RANDOM_PROGRAM_SECONDS", 100'000));
  ThreadPool pool(2);
  uint64_t made = 0, checked = 0, results = 0, moved = 0;
  while (made < count && !HasFailure() && processor_seconds() < seconds) {
    const uint64_t seed = first + made++;
    std::mt19937_64 random(seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(*make_random_program(random))));
    try {
      const Sample sample = make_sample(seed);
      if (sample.cases.empty()) continue;
      check_sample(sample, pool);
      ++checked;
      results += sample.cases.size() * sample.program->main().results().size();
      moved += static_cast<uint64_t>(sample.moved);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::cout << checked << " of " << made << " random programs had bindings; " << moved << " of "
            << results << " results are moved by rounding alone\n";
  EXPECT_GE(checked * 2, made);
  EXPECT_LE(moved * 20, results + 200);
}

// Multiplies a result of main by 1 + 1e-3.
void plant_fault(Program& program, int result) {
  Builder b(program.main());
  Value* value = program.main().results()[static_cast<size_t>(result)];
  program.main().set_result(result, b("mul", {value, b.scalar(ElementType::f32, 1 + kFault)}));
}

bool is_visible(const Sample& sample, size_t result) {
  return std::ranges::any_of(sample.cases, [&](const VerificationCase& each) {
    const Box expected = run_as_written(*sample.program, each.steps[0])[result];
    return 0.99 * kFault * largest(expected.tensor()) > each.roundings[result];
  });
}

TEST(RandomPrograms, ShowAnErrorOfOnePartInAThousand) {
  constexpr uint64_t kPrograms = 30;
  uint64_t visible = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const Sample sample = make_sample(seed);
    if (sample.cases.empty()) continue;
    const size_t result = seed % sample.program->main().results().size();
    if (!is_visible(sample, result)) continue;  // empty, zero or cancelled
    ++visible;
    VerificationOptions options = on_cpu();
    bool planted = false;
    options.compile.passes.substitute = [&](const Pass& pass) -> std::optional<Pass> {
      if (std::exchange(planted, true)) return std::nullopt;
      Pass faulty = pass;
      faulty.run = [run = pass.run, result](Program& program) {
        run(program);
        plant_fault(program, static_cast<int>(result));
        return true;
      };
      return faulty;
    };
    EXPECT_FALSE(verify_program(*sample.program, sample.cases, options).passed())
        << "seed " << seed << ", result " << result;
  }
  EXPECT_GE(visible * 3, kPrograms * 2);
}

}  // namespace
}  // namespace lathe::test
