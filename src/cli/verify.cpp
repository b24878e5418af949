// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "base/file_map.h"
#include "base/output.h"
#include "cli/commands.h"
#include "cli/data_set.h"
#include "cli/encoder.h"
#include "cli/execution.h"
#include "cli/verify_folder.h"
#include "cli/verify_language_model.h"
#include "cli/verify_report.h"
#include "import/checkpoint/checkpoint.h"
#include "llm/model/compiled_model.h"
#include "llm/model/hub_cache.h"
#include "runtime/data_set.h"
#include "runtime/verification.h"

namespace lathe::cli {
namespace {

struct Arguments {
  std::vector<std::string> models;
  ProgramArguments model;
  InputArguments input;
  int64_t cases = 3;
  int64_t steps = 4;
  std::string expected;
  std::vector<double> tolerance;
  bool json = false;
};

bool same_values(const std::vector<Box>& a, const std::vector<Box>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same =
        a[i].is_tensor() && b[i].is_tensor() && identical(a[i].tensor(), b[i].tensor());
    if (!same) return false;
  }
  return true;
}

std::map<std::string, int64_t> empty_lengths(const Program& program) {
  std::map<std::string, int64_t> lengths;
  for (const auto& [name, symbol] : program.symbols()) {
    if (symbol->kind == SymbolKind::length) lengths[name] = 0;
  }
  return lengths;
}

std::vector<VerificationCase> make_cases(const Program& program, const Arguments& arguments,
                                         const Options& options) {
  const auto seed = static_cast<uint64_t>(options.integer("seed"));
  const int64_t steps = program.states().empty() ? 1 : arguments.steps;
  std::vector<VerificationCase> cases;
  for (int64_t i = 0; i < arguments.cases; ++i) {
    VerificationCase made;
    made.name = fmt::format("seed {}", seed + static_cast<uint64_t>(i));
    SizeHints hints{.variant = i, .lengths = empty_lengths(program), .previous = {}};
    for (int64_t step = 0; step < steps; ++step) {
      constexpr uint64_t kStepSeeds = 1'000'003;
      const uint64_t step_seed =
          seed + static_cast<uint64_t>(i) + kStepSeeds * static_cast<uint64_t>(step);
      Inputs inputs = make_inputs(program, arguments.input, step_seed, hints);
      if (step == 0) {
        for (const auto& [name, size] : inputs.symbols) {
          made.name += fmt::format(", {} = {}", escape(name), size);
        }
      }
      hints.lengths = lengths_after(program, inputs.symbols, hints.lengths);
      hints.previous = inputs.symbols;
      made.steps.push_back(std::move(inputs.values));
    }
    // Equal inputs: every input has a value from a flag.
    if (!cases.empty() && same_values(cases.front().steps[0], made.steps[0])) break;
    cases.push_back(std::move(made));
  }
  return cases;
}

// Compares the compiled program with stored outputs.
Check check_stored(Session& session, const RunOptions& options, const DataSet& stored,
                   const std::vector<std::string>& names, double tolerance, bool quantises) {
  Check out{stored.name, CheckStatus::passed, "", {}};
  session.reset();
  const std::vector<Box> results = session.run(stored.inputs, options);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!stored.outputs[i]) continue;
    const ValueReport value =
        judge_value(names[i], results[i], *stored.outputs[i], {.relative = tolerance}, quantises);
    if (!value.problem.empty() && out.status == CheckStatus::passed) {
      out.status = CheckStatus::failed;
      out.detail = fmt::format("'{}': {}", escape(names[i]), value.problem);
    }
    out.values.push_back(value);
  }
  return out;
}

void check_stages(const Program& program, const Arguments& arguments,
                  const std::vector<DataSet>& stored, const CommandLine& line, ThreadPool& pool,
                  Report& report) {
  VerificationOptions options;
  options.compile = compile_options(line.options());
  check(options.compile.target->computes(), ErrorKind::invalid_argument,
        "target '{}' computes no results to compare", options.compile.target->name());
  report.target = options.compile.target->name();
  options.session.memory_limit = line.options().integer("memory-limit");
  options.session.pool = &pool;
  options.cancel = &interrupts();
  options.deadline = deadline_of(line.options());
  if (!arguments.tolerance.empty()) options.tolerance = arguments.tolerance[0];
  std::vector<VerificationCase> cases = make_cases(program, arguments, line.options());
  for (const DataSet& set : stored) cases.push_back({set.name, {set.inputs}});
  const VerificationReport found = verify_program(program, cases, options);
  report.cases = found.cases;
  report.skipped = found.skipped;
  report.quantises = found.quantises;
  for (const StageReport& stage : found.stages) report.checks.push_back(to_check(stage));
}

Report verify_model(const std::string& path, Arguments& arguments, const CommandLine& line) {
  arguments.model.model = path;
  const std::unique_ptr<Program> program = arguments.model.load(arguments.input);
  ThreadPool pool(static_cast<int>(line.options().integer("threads")));
  Report report;
  report.model = path;
  std::vector<DataSet> stored;
  if (!arguments.expected.empty()) {
    const Inputs inputs = make_inputs(*program, arguments.input,
                                      static_cast<uint64_t>(line.options().integer("seed")));
    stored.push_back(
        {arguments.expected, inputs.values, read_expected(arguments.expected, *program)});
  } else {
    for (const std::string& folder : data_sets_beside(path)) {
      stored.push_back(read_data_set(folder, *program));
    }
  }
  check_stages(*program, arguments, stored, line, pool, report);
  const std::vector<std::string> names = program->main().result_names();
  if (!stored.empty()) {
    Execution execution(program->clone(), line.options());
    const double tolerance = arguments.tolerance.empty() ? 0 : arguments.tolerance[0];
    for (const DataSet& set : stored) {
      report.checks.push_back(check_stored(execution.session(), execution.run_options(), set, names,
                                           tolerance, report.quantises));
    }
  }
  return report;
}

// True for a GGUF file and for a folder of one decoder.
bool is_decoder(const std::string& path) {
  return checkpoint::is_gguf_file(path) || llm::open_compiled_model(path) != nullptr ||
         (is_folder(path) && (file_exists(join_path(path, "genai_config.json")) ||
                              checkpoint::is_hf_folder(Folder(path))));
}

enum class Kind : uint8_t { program, models, decoder, encoder };

Kind kind_of(const std::string& path) {
  if (is_encoder(path)) return Kind::encoder;
  if (is_decoder(path)) return Kind::decoder;
  return is_folder(path) ? Kind::models : Kind::program;
}

struct Subject {
  std::string path;
  Kind kind = Kind::program;
  std::optional<Report> error;  // it cannot be opened
};

// With several arguments, an error of one becomes its report.
template <typename Function>
std::optional<Report> error_of(const std::string& path, const Arguments& arguments,
                               const Function& function) {
  try {
    function();
    return std::nullopt;
  } catch (const Error& error) {
    if (arguments.models.size() == 1 || error.kind() == ErrorKind::interrupted) throw;
    Report report;
    report.model = path;
    report.error = error.what();
    report.error_code = error_kind_info(error.kind()).exit_code;
    return report;
  }
}

Subject open_subject(const std::string& model, const Arguments& arguments) {
  Subject subject{.path = model, .kind = Kind::program, .error = std::nullopt};
  subject.error = error_of(model, arguments, [&] {
    subject.path = llm::resolve_model(model);
    subject.kind = kind_of(subject.path);
  });
  return subject;
}

// Flags that do not apply to a language model or to a folder of models.
void refuse_flags(const Subject& subject, const CommandLine& line) {
  if (subject.error || subject.kind == Kind::program) return;
  const bool models = subject.kind == Kind::models;
  const std::string shown = fmt::format("the {} '{}'",
                                        models                          ? "folder of models"
                                        : subject.kind == Kind::encoder ? "encoder"
                                                                        : "language model",
                                        escape(subject.path));
  line.refuse({"--state", "--input", "--fill", "--mean", "--std", "--scale", "--layout", "--cases",
               "--steps", "--expected", "--timeout", "--seed"},
              shown);
  if (subject.kind == Kind::encoder) line.refuse({"--memory-limit"}, shown);
  if (models) line.refuse({"--tolerance", "--quantize"}, shown);
}

// Verifies a model or a folder of models.
Report verify_one(const Subject& subject, Arguments& arguments, const CommandLine& line) {
  if (subject.error) return *subject.error;
  Report report;
  const std::string& path = subject.path;
  const std::optional<Report> error = error_of(path, arguments, [&] {
    const double tolerance = arguments.tolerance.empty() ? 0 : arguments.tolerance[0];
    switch (subject.kind) {
      case Kind::program:
        report = verify_model(path, arguments, line);
        break;
      case Kind::models:
        report = verify_folder(path, line.options());
        break;
      case Kind::decoder:
        report = verify_language_model(path, tolerance, line.options());
        break;
      case Kind::encoder:
        report = verify_encoder(path, tolerance, line.options());
        break;
    }
  });
  return error ? *error : report;
}

}  // namespace

int verify(CommandLine& line) {
  Arguments arguments;
  bool worker = false;
  line.positionals(
      "MODEL", arguments.models,
      "ONNX models, compiled files, texts of programs, language models and encoders of "
      "texts (folders, GGUF files), or folders of models with test_data_set_0.");
  arguments.model.declare_states(line);
  arguments.input.declare(line);
  line.integer("--cases", arguments.cases, 1, 1000,
               "Number of runs with different random inputs and sizes of dims.");
  line.integer("--steps", arguments.steps, 1, 1000,
               "Number of consecutive runs per case of a program with states.");
  line.text("--expected", arguments.expected, "FILE", "An .npz of expected outputs for --input.");
  line.numbers(
      "--tolerance", arguments.tolerance,
      "Largest |a - b| over largest |b| (default by element type, f32: 1e-4, and what rounding "
      "alone moves).");
  line.flag(
      "--json", arguments.json,
      "Prints a JSON object per model: passed, failed, unsupported, list; an array of several.");
  line.hidden_flag("--worker", worker);
  line.options({"target", "compute", "quantize", "threads", "memory-limit", "timeout", "seed",
                "verify-each-pass", "round-trip"});
  if (!line.parse()) return 0;

  if (worker) {
    run_verify_worker(line.options(), line.out());
    return 0;
  }
  std::vector<Subject> subjects;
  for (const std::string& model : arguments.models) {
    subjects.push_back(open_subject(model, arguments));
    refuse_flags(subjects.back(), line);
  }
  std::vector<Report> reports;
  for (const Subject& subject : subjects) {
    reports.push_back(verify_one(subject, arguments, line));
    if (!arguments.json) line.out().write(report_text(reports.back()));
  }
  if (arguments.json) line.out().write(reports_json(reports));
  line.out().flush();
  int code = 0;
  for (const Report& report : reports) {
    if (!report.error.empty()) write_error_text(fmt::format("error: {}\n", report.error));
    if (report.has_difference()) code = 1;
    if (code == 0) code = report.error_code;
  }
  return code;
}

}  // namespace lathe::cli
