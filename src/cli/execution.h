// SPDX-License-Identifier: MIT
// Compilation and execution for the commands that run programs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cli/command_line.h"
#include "cli/inputs.h"
#include "passes/quantize_weights.h"
#include "runtime/session.h"
#include "runtime/tune.h"
#include "targets/compile.h"

namespace lathe::cli {

// Cancelled by SIGINT.
CancelToken& interrupts();

// Verification and traces of passes from the command line.
PassOptions pass_options(const Options& options);
// Compile options from the command line. InvalidArgument for an unknown target.
CompileOptions compile_options(const Options& options);
Compute compute_option(const Options& options);
WeightQuantisation quantize_option(const Options& options);

// The present time plus --timeout; none without a timeout.
std::optional<Clock::time_point> deadline_of(const Options& options);

std::optional<Stage> parse_stage(const std::string& name, std::string_view flag);
std::vector<std::string_view> stage_names();

// --tune SECONDS.
struct TuneArguments {
  int64_t seconds = 0;  // 0: without the flag

  bool used() const { return seconds > 0; }
  void declare(CommandLine& line);
  // Measures with these inputs and prints the result on standard error; null without the flag.
  std::shared_ptr<Tuning> tune(const Program& program, std::span<const Box> inputs,
                               const Options& options) const;
};

// The flags of a program.
struct ProgramArguments {
  std::string model;
  std::vector<std::string> states;  // PAST=PRESENT

  // What a command takes beside ONNX models, compiled files and texts of programs.
  enum class Others : uint8_t { none, language_models };
  void declare(CommandLine& line, Others others = Others::none);
  void declare_states(CommandLine& line);
  // `given`: initialisers named by its flags become inputs.
  std::unique_ptr<Program> load(const InputArguments& given = {}) const;
};

// A plan with a session and its threads.
class Execution {
 public:
  // `tuning`: measured choices; null: see CompileOptions.
  Execution(std::unique_ptr<Program> program, const Options& options,
            std::shared_ptr<Tuning> tuning = nullptr);

  const Plan& plan() const { return *plan_; }
  Session& session() { return *session_; }
  int threads() const { return pool_->threads(); }
  RunOptions run_options() const;

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace lathe::cli
