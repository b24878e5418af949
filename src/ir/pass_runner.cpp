// SPDX-License-Identifier: MIT
#include "ir/pass_runner.h"

#include <chrono>

#include "base/error.h"
#include "base/file_map.h"
#include "base/interrupt.h"
#include "ir/literal_file.h"
#include "ir/obligations.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/rule.h"
#include "ir/verify.h"

namespace lathe {
namespace {

// The first line that differs, in both versions.
std::string first_difference(std::string_view a, std::string_view b) {
  for (size_t begin = 0;;) {
    const size_t end_a = a.find('\n', begin);
    const size_t end_b = b.find('\n', begin);
    const std::string_view line_a = a.substr(begin, end_a - begin);
    const std::string_view line_b = b.substr(begin, end_b - begin);
    if (line_a != line_b || end_a == std::string_view::npos) {
      return fmt::format("'{}', parsed again '{}'", escape(line_a, 400), escape(line_b, 400));
    }
    begin = end_a + 1;
  }
}

void check_round_trip(const Program& program) {
  const std::string text = print(program);
  ParseOptions options = with_literals_of(program);
  options.verify = false;  // set by verify_each_pass, not by each round trip
  const std::string again = print(*parse_program(text, options));
  check(text == again, ErrorKind::internal, "the text of '{}' changes when parsed: {}",
        escape(program.name), first_difference(text, again));
}

class PassRunner {
 public:
  PassRunner(Program& program, const Pipeline& pipeline, const PassOptions& options)
      : program_(program), pipeline_(pipeline), options_(options) {}

  std::vector<PassRecord> run() {
    for (const StagePasses& stage : pipeline_.stages) {
      if (stage.stage <= program_.stage) continue;
      for (const Pass& pass : stage.passes) run_pass(pass, stage.stage);
      program_.stage = stage.stage;
      verify(program_);
      if (options_.stop_after == stage.stage) break;
    }
    return std::move(records_);
  }

 private:
  void run_pass(const Pass& listed, Stage stage) {
    check_interrupt();
    if (options_.check_interrupt) options_.check_interrupt();
    std::optional<Pass> other;
    if (options_.substitute) other = options_.substitute(listed);
    const Pass& pass = other ? *other : listed;
    std::unique_ptr<Program> before;
    if (!options_.save_failing.empty()) before = program_.clone();
    try {
      const Obligations obligations(program_);
      execute(pass, stage);
      check_result(pass, obligations);
    } catch (Error& error) {
      explain(error, pass, before.get());
      throw;
    } catch (const std::exception& exception) {
      Error error(ErrorKind::internal, fmt::format("pass '{}': {}", pass.name, exception.what()));
      explain(error, pass, before.get());
      throw error;
    }
    if (options_.after_pass) options_.after_pass(pass.name, program_);
  }

  void execute(const Pass& pass, Stage stage) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<RuleWatch> watch;
    if (options_.verify_each_rule) {
      watch.emplace(
          [](const Rule&, const Program& program) { verify(program, {.stage_spec = false}); });
    }
    const bool changed = pass.run(program_);
    if (changed && pipeline_.cleanup.run) pipeline_.cleanup.run(program_);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    records_.push_back({pass.name, stage, changed, elapsed.count()});
    if (options_.trace) {
      options_.trace(fmt::format("{}: {} {:.2f} ms{}", to_string(stage), pass.name, elapsed.count(),
                                 changed ? "" : " (unchanged)"));
    }
  }

  void check_result(const Pass& pass, const Obligations& obligations) {
    if (options_.verify_each_pass) verify(program_, {.stage_spec = false});
    const std::vector<std::string> broken =
        obligations.broken_by(program_, pass.changes_interface, pass.changes_requirements);
    if (!broken.empty()) {
      Error error(ErrorKind::internal, fmt::format("pass '{}' {}", pass.name, broken.front()));
      for (size_t i = 1; i < broken.size(); ++i) error.note(broken[i]);
      throw error;
    }
    if (options_.round_trip) check_round_trip(program_);
  }

  void explain(Error& error, const Pass& pass, const Program* before) {
    error.note(fmt::format("while running pass '{}'", pass.name));
    if (before == nullptr) return;
    try {
      const std::string literals = options_.save_failing + ".literals";
      write_literals(literals, *before);
      write_file(options_.save_failing,
                 fmt::format("// Before pass '{}'; its literals are in {}\n{}", pass.name,
                             escape(literals), print(*before)));
      error.note(fmt::format("the program before it: {}", escape(options_.save_failing)));
      error.note(fmt::format("reproduce with: lathe verify {}", escape(options_.save_failing)));
    } catch (const Error& unsaved) {
      error.note(fmt::format("the program before it could not be saved: {}", unsaved.message()));
    }
  }

  Program& program_;
  const Pipeline& pipeline_;
  const PassOptions& options_;
  std::vector<PassRecord> records_;
};

}  // namespace

std::vector<PassRecord> run_passes(Program& program, const Pipeline& pipeline,
                                   const PassOptions& options) {
  return PassRunner(program, pipeline, options).run();
}

}  // namespace lathe
