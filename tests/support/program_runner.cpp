// SPDX-License-Identifier: MIT
#include "tests/support/program_runner.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "passes/promote_state.h"
#include "runtime/session.h"
#include "targets/pack_weights.h"
#include "tests/support/compare.h"
#include "tests/support/sim_target.h"

namespace lathe::test {
namespace {

const Attribute* option(const OpRow& row, std::string_view name) {
  for (const auto& [given, value] : row.attributes) {
    if (given == name) return &value;
  }
  return nullptr;
}

std::unique_ptr<Program> load(const OpRow& row) {
  std::unique_ptr<Program> program = parse_program(row.program, {.file = row.file});
  if (const Attribute* pairs = option(row, "promote")) {
    std::vector<StatePair> states;
    for (const std::string& text : std::get<Texts>(*pairs)) {
      const size_t colon = text.find(':');
      states.push_back({text.substr(0, colon), text.substr(colon + 1)});
    }
    promote_state(*program, states);
  }
  return program;
}

// Prints and parses the program; printing again must yield the same text.
std::unique_ptr<Program> round_trip(const Program& program) {
  const std::string text = print(program);
  std::unique_ptr<Program> parsed = parse_program(text, with_literals_of(program));
  EXPECT_EQ(print(*parsed), text) << "at stage " << to_string(program.stage);
  return parsed;
}

void run_step(Session& session, const OpRow& step) {
  std::vector<Box> inputs;
  for (const RowValue& value : step.operands) inputs.push_back(value.box);
  RunOptions options;
  Integers rows;
  if (const Attribute* given = option(step, "rows")) rows = std::get<Integers>(*given);
  options.rows = rows;
  try {
    const std::vector<Box> results = session.run(inputs, options);
    if (step.error) {
      ADD_FAILURE() << step.file << ":" << step.line << ": expected the error \"" << *step.error
                    << "\"";
      return;
    }
    ASSERT_EQ(results.size(), step.results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string found = difference(results[i], step.results[i].box, step.tolerance);
      EXPECT_TRUE(found.empty()) << step.file << ":" << step.line << ": result " << i << " "
                                 << found;
    }
  } catch (const Error& error) {
    if (!step.error) throw;
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(*step.error), std::string_view::npos)
        << error.what();
  }
}

void run_on(const OpRow& row, const std::shared_ptr<const Target>& target, ThreadPool* pool) {
  SCOPED_TRACE(
      fmt::format("on {} with {}", target->name(), pool == nullptr ? "one thread" : "a pool"));
  const CompileOptions options{.target = target};
  std::unique_ptr<Program> program = round_trip(*load(row));
  for (const Stage stage : {Stage::canonical, Stage::optimised, Stage::fused, Stage::lowered}) {
    run_pipeline(*program, options, stage);
    add_packings(*program, options);
    program = round_trip(*program);
  }
  Session session(compile(std::move(program), options),
                  {.pool = pool, .warn = [](std::string_view) {}});
  run_step(session, row);
  for (const OpRow& step : row.then) run_step(session, step);
}

}  // namespace

void run_program_row(const OpRow& row) {
  ThreadPool pool(2);
  run_on(row, find_target("ref"), nullptr);
  run_on(row, find_target("ref"), &pool);
  for (const uint64_t seed : kSimSeeds) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    run_on(row, sim_target(false, seed), nullptr);
    run_on(row, sim_target(true, seed), nullptr);
  }
#if defined(__x86_64__)
  run_on(row, find_target("cpu"), &pool);
#endif
}

}  // namespace lathe::test
