// SPDX-License-Identifier: MIT
#include "cli/execution.h"

#include "base/log.h"
#include "base/output.h"
#include "import/load_model.h"
#include "ir/compiled_source.h"
#include "ir/print.h"
#include "passes/promote_state.h"

namespace lathe::cli {
namespace {

constexpr Stage kStages[] = {Stage::imported, Stage::canonical, Stage::optimised, Stage::fused,
                             Stage::lowered};

std::shared_ptr<const Plan> plan_of(std::unique_ptr<Program> program, const Options& options,
                                    ThreadPool* pool, std::shared_ptr<Tuning> tuning) {
  CompileOptions compiling = compile_options(options);
  compiling.tuning = std::move(tuning);
  compiling.pool = pool;
  return compile(std::move(program), compiling);
}

}  // namespace

CancelToken& interrupts() {
  static CancelToken token;
  return token;
}

WeightQuantisation quantize_option(const Options& options) {
  return parse_weight_quantisation(options.text("quantize"), options.origin("quantize"));
}

Compute compute_option(const Options& options) {
  return parse_compute(options.text("compute"), options.origin("compute"));
}

PassOptions pass_options(const Options& options) {
  PassOptions passes;
  passes.verify_each_pass = kVerifyEachPass || options.boolean("verify-each-pass");
  passes.round_trip = options.boolean("round-trip");
  passes.trace = [](const std::string& line) { log_line(3, line); };
  if (logs(5)) {
    passes.after_pass = [](std::string_view pass, const Program& program) {
      log_line(5, fmt::format("after {}:\n{}", pass, print(program)));
    };
  }
  return passes;
}

CompileOptions compile_options(const Options& options) {
  CompileOptions out;
  try {
    out.target = find_target(options.text("target"));
  } catch (Error& error) {
    error.note(fmt::format("from {}", options.origin("target")));
    throw;
  }
  out.compute = compute_option(options);
  out.passes = pass_options(options);
  out.passes.check_interrupt = [deadline = deadline_of(options)] {
    check(!interrupts().cancelled(), ErrorKind::interrupted, "interrupted while compiling ({})",
          "before the next pass");
    check(!deadline || Clock::now() < *deadline, ErrorKind::interrupted,
          "timed out ({}) while compiling", "--timeout");
  };
  return out;
}

std::optional<Clock::time_point> deadline_of(const Options& options) {
  const double seconds = options.number("timeout");
  if (seconds == 0) return std::nullopt;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::vector<std::string_view> stage_names() {
  std::vector<std::string_view> names;
  for (const Stage stage : kStages) names.push_back(to_string(stage));
  return names;
}

std::optional<Stage> parse_stage(const std::string& name, std::string_view flag) {
  if (name.empty()) return std::nullopt;
  for (const Stage stage : kStages) {
    if (to_string(stage) == name) return stage;
  }
  fail(ErrorKind::invalid_argument, "{} is '{}'{}, expected one of: {}", flag, escape(name),
       did_you_mean(name, stage_names()), fmt::join(stage_names(), ", "));
}

void ProgramArguments::declare(CommandLine& line, Others others) {
  line.model("MODEL", model,
             others == Others::none
                 ? "An ONNX model, a compiled file (.lathe), or the text of a program."
                 : "An ONNX model, a compiled file (.lathe), the text of a program, or a language "
                   "model (a folder or a GGUF file).");
  declare_states(line);
}

void ProgramArguments::declare_states(CommandLine& line) {
  line.texts("--state", states, "PAST=PRESENT",
             "Converts the input PAST and the output PRESENT to a state, kept between runs.");
}

std::unique_ptr<Program> ProgramArguments::load(const InputArguments& given) const {
  std::vector<StatePair> pairs;
  for (const std::string& state : states) {
    const size_t equals = state.find('=');
    check(equals != std::string::npos && equals > 0 && equals + 1 < state.size(),
          ErrorKind::invalid_argument, "--state is '{}', expected PAST=PRESENT", escape(state));
    pairs.push_back({state.substr(0, equals), state.substr(equals + 1)});
  }
  std::unique_ptr<Program> program = load_model(model, {.fed = given.names()});
  if (!pairs.empty()) {
    if (const CompiledSource* file = compiled_source(*program)) program = file->portable();
    promote_state(*program, pairs);
  }
  return program;
}

void TuneArguments::declare(CommandLine& line) {
  line.integer(
      "--tune", seconds, 1, 86400,
      "Measures for about N seconds other ways to compute each product, convolution and fused "
      "region, and takes the faster ones; keeps them in a cache of this processor.");
}

std::shared_ptr<Tuning> TuneArguments::tune(const Program& program, std::span<const Box> inputs,
                                            const Options& options) const {
  if (seconds == 0) return nullptr;
  ThreadPool pool(static_cast<int>(options.integer("threads")), options.boolean("pin-threads"));
  CompileOptions compiling = compile_options(options);
  compiling.pool = &pool;
  TuneOptions how;
  how.seconds = static_cast<double>(seconds);
  how.cache = tuning_cache();
  how.memory_limit = options.integer("memory-limit");
  how.run.cancel = &interrupts();
  how.run.deadline = deadline_of(options);
  const TuneResult result = lathe::tune(program, compiling, inputs, how);
  write_error_text(to_string(result) + "\n");
  return result.tuning;
}

Execution::Execution(std::unique_ptr<Program> program, const Options& options,
                     std::shared_ptr<Tuning> tuning)
    : pool_(std::make_unique<ThreadPool>(static_cast<int>(options.integer("threads")),
                                         options.boolean("pin-threads"))),
      plan_(plan_of(std::move(program), options, pool_.get(), std::move(tuning))),
      deadline_(deadline_of(options)) {
  SessionOptions session;
  session.memory_limit = options.integer("memory-limit");
  session.pool = pool_.get();
  session_ = std::make_unique<Session>(plan_, session);
  log_line(1, fmt::format("'{}' on {}: {} launches, {} threads", escape(plan_->program->name),
                          plan_->target, plan_->modules.front().launches.size(), pool_->threads()));
}

RunOptions Execution::run_options() const {
  RunOptions options;
  options.cancel = &interrupts();
  options.deadline = deadline_;
  return options;
}

}  // namespace lathe::cli
