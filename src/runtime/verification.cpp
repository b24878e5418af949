// SPDX-License-Identifier: MIT
#include "runtime/verification.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/builder.h"
#include "ir/compiled_source.h"
#include "ir/op.h"
#include "ir/ops.h"
#include "runtime/difference.h"
#include "runtime/kernel_check.h"
#include "runtime/lockstep.h"
#include "runtime/nudged.h"
#include "runtime/profiler.h"

namespace lathe {
namespace {

constexpr Stage kStages[] = {Stage::canonical, Stage::optimised, Stage::fused, Stage::lowered};
// Unrelated results are further apart.
constexpr DistributionLimits kMost{.kl = 1, .noise = 1};
constexpr double kQuantisedError = 0.02;  // of an instruction that rounds to integers
constexpr double kMostRounding = 0.01;  // of results that rounding alone moves: a fault moves more

using Results = std::vector<std::vector<Box>>;  // per step

struct Snapshot {
  std::string pass;
  std::unique_ptr<Program> program;
};

// Keeps the worst report of each value.
class Findings {
 public:
  void add(ValueReport report) {
    const auto [at, added] = index_.try_emplace(report.name, values_.size());
    if (added) {
      values_.push_back(std::move(report));
      return;
    }
    ValueReport& known = values_[at->second];
    if (!known.problem.empty()) return;
    if (!report.problem.empty() || report.error > known.error) known = std::move(report);
  }
  void finish(StageReport& stage) {
    for (const ValueReport& value : values_) {
      if (value.problem.empty() || !stage.problem.empty()) continue;
      stage.problem = fmt::format("'{}' {}: {}", escape(value.name), value.where, value.problem);
    }
    stage.values = std::move(values_);
  }

 private:
  std::vector<ValueReport> values_;
  std::map<std::string, size_t> index_;
};

// The usual error of an instruction's results: that of 16 bits where it rounds to them. A pass may
// remove the rounding, which a later cast to f32 does not hide.
double rounding_error(const Instruction& instruction) {
  double out = 0;
  for (const auto* body : instruction.bodies()) {
    for (const auto& inner : body->instructions()) out = std::max(out, rounding_error(*inner));
  }
  if (instruction.op() == ops::literal || instruction.op().map) return out;
  for (const Value& result : instruction.results()) {
    const ElementType type = result.type().element;
    if (type != ElementType::f16 && type != ElementType::bf16) continue;
    out = std::max(out, usual_error(type));
  }
  return out;
}

// For each result of a program: the largest of these among what it depends on.
std::vector<double> rounding_errors(const Program& program) {
  std::map<const Value*, double> errors;
  for (const auto& instruction : program.main().instructions()) {
    double error = rounding_error(*instruction);
    for (const Value* operand : instruction->operands()) {
      if (const auto at = errors.find(operand); at != errors.end()) {
        error = std::max(error, at->second);
      }
    }
    if (error == 0) continue;
    for (const Value& result : instruction->results()) errors[&result] = error;
  }
  std::vector<double> out;
  for (const Value* result : program.main().results()) {
    const auto at = errors.find(result);
    out.push_back(at == errors.end() ? 0 : at->second);
  }
  return out;
}

class Verification {
 public:
  Verification(const Program& imported, std::span<const VerificationCase> cases,
               const VerificationOptions& options)
      : imported_(imported), options_(options) {
    if (const CompiledSource* file = compiled_source(imported)) portable_ = file->portable();
    report_.quantises = quantises_at_run_time(imported);
    roundings_ = rounding_errors(portable_ ? *portable_ : imported);
    run_reference(cases);
    if (report_.quantises) measure_sensitivity();
  }

  VerificationReport run() {
    std::unique_ptr<Program> program = imported_.clone();
    if (portable_ != nullptr && !verify_lowered(*program)) return std::move(report_);
    for (const Stage stage : kStages) {
      if (stage <= program->stage) continue;
      if (!verify_stage(*program, stage)) return std::move(report_);
    }
    verify_kernels();
    verify_target();
    return std::move(report_);
  }

 private:
  RunOptions run_options() const {
    RunOptions out;
    out.cancel = options_.cancel;
    out.deadline = options_.deadline;
    return out;
  }

  Results run_steps(const std::shared_ptr<const Plan>& plan, const VerificationCase& inputs,
                    Profiler* profiler = nullptr) const {
    Session session(plan, options_.session);
    Results results;
    RunOptions run = run_options();
    run.profiler = profiler;
    for (const std::vector<Box>& step : inputs.steps) results.push_back(session.run(step, run));
    return results;
  }

  // Skips cases that the imported program refuses.
  void run_reference(std::span<const VerificationCase> cases) {
    const auto plan = compile_as_written((portable_ ? *portable_ : imported_).clone());
    std::optional<Error> first;
    for (const VerificationCase& inputs : cases) {
      try {
        references_.push_back(run_steps(plan, inputs));
        cases_.push_back(&inputs);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_argument) throw;
        report_.skipped.push_back(fmt::format("{}: {}", inputs.name, error.message()));
        if (!first) first = error;
      }
    }
    report_.cases = static_cast<int64_t>(cases_.size());
    if (cases_.empty() && first) throw *first;
  }

  // Compares the lowered program of a compiled file with the one before lowering.
  bool verify_lowered(const Program& program) {
    StageReport report;
    report.name = std::string(to_string(Stage::lowered));
    check_program(program, report);
    report_.stages.push_back(report);
    return report.passed();
  }

  // A step of one rounding spreads through a program that quantises often. How far, a run shows in
  // which every value is one part in 2^20 larger before it is rounded: results may be twice as far
  // from the reference. (Each instruction is compared on equal inputs besides.)
  void measure_sensitivity() {
    const std::unique_ptr<Program> program = (portable_ ? *portable_ : imported_).clone();
    for (const auto& module : program->modules()) {
      for (const auto& instruction : module->instructions()) nudge(*module, *instruction);
    }
    const auto plan = compile_as_written(program->clone());
    limits_.resize(imported_.main().result_names().size());
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Results results = run_steps(plan, *cases_[i]);
      for (size_t step = 0; step < results.size(); ++step) {
        for (size_t k = 0; k < limits_.size(); ++k) {
          widen(limits_[k], results[step][k], references_[i][step][k]);
        }
      }
    }
  }

  static void nudge(Module& module, Instruction& instruction) {
    constexpr double kPart = 1 + 0x1p-20;
    if (!quantises_at_run_time(instruction)) return;
    Value* x = instruction.operands()[0];
    if (x == nullptr || !x->type().is_ranked() || x->type().element != ElementType::f32) return;
    Builder builder(module, &instruction);
    instruction.set_operand(0, builder(ops::mul, {x, builder.scalar(ElementType::f32, kPart)}));
  }

  static void widen(DistributionLimits& limits, const Box& actual, const Box& expected) {
    if (!actual.is_tensor() || !expected.is_tensor() || expected.tensor().rank() == 0 ||
        expected.tensor().count() == 0 || !is_floating(expected.tensor().type())) {
      return;
    }
    const Divergence found = compare_distributions(actual.tensor(), expected.tensor());
    if (std::isfinite(found.mean_kl)) {
      limits.kl = std::max(limits.kl, std::min(kMost.kl, 2 * found.mean_kl));
    }
    if (std::isfinite(found.noise)) {
      limits.noise = std::max(limits.noise, std::min(kMost.noise, 2 * found.noise));
    }
  }

  // Returns false if the stage differs: later stages would differ too.
  bool verify_stage(Program& program, Stage stage) {
    StageReport report;
    report.name = std::string(to_string(stage));
    const std::unique_ptr<Program> before = program.clone();
    std::vector<Snapshot> snapshots;
    if (!run_passes_of(program, stage, snapshots, report)) {
      report_.stages.push_back(std::move(report));
      return false;
    }
    report.unchanged = snapshots.empty();
    if (!report.unchanged) {
      check_program(program, report);
      if (!report.passed()) find_bad_pass(snapshots, report);
    }
    report_.stages.push_back(report);
    return report.passed();
  }

  bool run_passes_of(Program& program, Stage stage, std::vector<Snapshot>& snapshots,
                     StageReport& report) {
    CompileOptions compile = options_.compile;
    std::string running;
    const auto substitute = compile.passes.substitute;
    compile.passes.substitute = [&](const Pass& pass) {
      running = pass.name;
      return substitute ? substitute(pass) : std::optional<Pass>();
    };
    compile.passes.after_pass = [&](std::string_view pass, const Program& after) {
      snapshots.push_back({std::string(pass), after.clone()});
    };
    try {
      const std::vector<PassRecord> records = run_pipeline(program, compile, stage);
      for (size_t i = snapshots.size(); i-- > 0;) {
        if (!records[i].changed) snapshots.erase(snapshots.begin() + static_cast<ptrdiff_t>(i));
      }
      return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) throw;
      report.bad_pass = running;
      report.problem = error.what();
      return false;
    }
  }

  void check_program(const Program& program, StageReport& report) const {
    try {
      if (report_.quantises) check_lockstep(program, report);
      if (report.passed()) check_plan(compile_as_written(program.clone()), report);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) throw;
      report.problem = fmt::format("the program fails: {}", error.what());
    }
  }

  void check_plan(const std::shared_ptr<const Plan>& plan, StageReport& report) const {
    const std::vector<std::string>& names = imported_.main().result_names();
    Findings findings;
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Results results = run_steps(plan, *cases_[i]);
      for (size_t step = 0; step < results.size(); ++step) {
        for (size_t k = 0; k < names.size(); ++k) {
          Tolerance tolerance = tolerance_of(*cases_[i], k, results[step][k]);
          const auto judge = [&] {
            return judge_value(names[k], results[step][k], references_[i][step][k], tolerance,
                               rounds_more(), limits_of(k));
          };
          ValueReport value = judge();
          if (!value.problem.empty() && is_usual(*cases_[i])) {
            tolerance.relative = std::max(value.limit, error_of_rounding(i, step, k));
            value = judge();
          }
          value.where = place(i, step);
          findings.add(std::move(value));
        }
      }
    }
    findings.finish(report);
  }

  DistributionLimits limits_of(size_t result) const {
    return limits_.empty() ? DistributionLimits{} : limits_[result];
  }

  Tolerance tolerance_of(const VerificationCase& inputs, size_t k, const Box& result) const {
    Tolerance out{.relative = options_.tolerance};
    if (!inputs.roundings.empty()) out.absolute = inputs.roundings[k];
    if (out.relative == 0 && roundings_[k] > 0 && result.is_tensor()) {
      out.relative = std::max(roundings_[k], usual_error(result.tensor().type()));
    }
    return out;
  }

  // Nothing but rounding in another order may move the results of this case.
  bool is_usual(const VerificationCase& inputs) const {
    return options_.tolerance == 0 && inputs.roundings.empty() && !rounds_more();
  }

  // The largest error that rounding alone explains. Measured where the usual limit is exceeded.
  double error_of_rounding(size_t index, size_t step, size_t result) const {
    const auto [at, added] = errors_of_rounding_.try_emplace(index);
    if (added) at->second = measure_rounding(index);
    return at->second.empty() ? 0 : at->second[step][result];
  }

  // How far the results of nudged programs are from the reference. A comparison may go the other
  // way in one of them: the smallest error counts.
  std::vector<std::vector<double>> measure_rounding(size_t index) const {
    std::vector<std::vector<double>> errors;
    for (const uint64_t seed : {1, 2, 3}) {
      Results results;
      try {
        auto program = make_nudged(portable_ ? *portable_ : imported_, seed, true);
        results = run_steps(compile_as_written(std::move(program)), *cases_[index]);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::interrupted) throw;
        return {};  // a size depends on the nudged values
      }
      errors.resize(results.size());
      for (size_t step = 0; step < results.size(); ++step) {
        errors[step].resize(results[step].size(), kMostRounding);
        for (size_t k = 0; k < results[step].size(); ++k) {
          const Box& expected = references_[index][step][k];
          const double error = kOrders * compare_values(results[step][k], expected).error;
          errors[step][k] = std::isfinite(error) ? std::min(errors[step][k], error) : 0;
        }
      }
    }
    return errors;
  }

  // Final values are then judged as distributions.
  bool rounds_more() const {
    const Compute compute = options_.compile.compute;
    return report_.quantises || compute == Compute::bf16 || compute == Compute::f16 ||
           compute == Compute::int8;
  }

  std::string place(size_t index, size_t step) const {
    const VerificationCase& inputs = *cases_[index];
    return inputs.steps.size() > 1 ? fmt::format("with {}, step {}", inputs.name, step)
                                   : fmt::format("with {}", inputs.name);
  }

  // Compares every instruction of both programs on the imported program's values.
  void check_lockstep(const Program& program, StageReport& report) const {
    Lockstep lockstep = make_lockstep(portable_ ? *portable_ : imported_, program);
    const auto reference = compile_as_written(std::move(lockstep.reference));
    const auto other = compile_as_written(std::move(lockstep.other));
    Findings findings;
    for (size_t i = 0; i < cases_.size(); ++i) {
      Session expected_session(reference, options_.session);
      Session session(other, options_.session);
      for (size_t step = 0; step < cases_[i]->steps.size(); ++step) {
        std::vector<Box> inputs = cases_[i]->steps[step];
        const std::vector<Box> expected = expected_session.run(inputs, run_options());
        inputs.insert(inputs.end(), expected.begin(), expected.end());
        const std::vector<Box> actual = session.run(inputs, run_options());
        for (size_t k = 0; k < expected.size(); ++k) {
          const Lockstep::Value& shared = lockstep.values[k];
          const double limit = shared.quantises ? kQuantisedError : options_.tolerance;
          const Difference difference =
              compare_values(actual[k], expected[k], {.relative = limit, .steps = shared.steps});
          ValueReport value;
          value.name = shared.name;
          value.where = place(i, step);
          value.error = difference.error;
          value.limit = difference.limit;
          value.problem = difference.text;
          findings.add(std::move(value));
        }
      }
    }
    findings.finish(report);
    report.values.clear();  // too many to print; `problem` has the first bad one
  }

  // Binary search for the first snapshot that differs.
  void find_bad_pass(const std::vector<Snapshot>& snapshots, StageReport& report) const {
    size_t good = 0;
    size_t bad = snapshots.size() - 1;
    while (good < bad) {
      const size_t middle = (good + bad) / 2;
      StageReport trial;
      check_program(*snapshots[middle].program, trial);
      if (trial.passed()) {
        good = middle + 1;
      } else {
        bad = middle;
      }
    }
    report.bad_pass = snapshots[bad].pass;
  }

  // Compares every kernel of the target with the reference on the same inputs.
  void verify_kernels() {
    KernelCheck check(options_.tolerance);
    const auto plan = check.compile(imported_.clone(), options_.compile);
    StageReport report;
    report.name = fmt::format("{}, each kernel", plan->target);
    try {
      for (const VerificationCase* inputs : cases_) {
        Profiler launches;  // each by itself
        run_steps(plan, *inputs, &launches);
      }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) throw;
      report.problem = fmt::format("the plan does not run: {}", error.what());
    }
    add_kernels(check.reports(), report);
    if (!report.values.empty() || !report.problem.empty()) {
      report_.stages.push_back(std::move(report));
    }
  }

  void verify_target() {
    StageReport report;
    const auto plan = compile(imported_.clone(), options_.compile);
    report.name = fmt::format("{}, end to end", plan->target);
    try {
      check_plan(plan, report);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) throw;
      report.problem = fmt::format("the plan does not run: {}", error.what());
    }
    report_.stages.push_back(std::move(report));
  }

  const Program& imported_;
  std::unique_ptr<const Program> portable_;  // of a compiled file, the reference
  const VerificationOptions& options_;
  std::vector<const VerificationCase*> cases_;
  std::vector<Results> references_;         // per case
  std::vector<double> roundings_;           // per result; 0: none to 16 bits
  std::vector<DistributionLimits> limits_;  // per result; empty: the usual ones
  mutable std::map<size_t, std::vector<std::vector<double>>> errors_of_rounding_;  // per case
  VerificationReport report_;
};

}  // namespace

bool VerificationReport::passed() const {
  return std::all_of(stages.begin(), stages.end(),
                     [](const StageReport& stage) { return stage.passed(); });
}

bool quantises_at_run_time(const Program& program) {
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      if (quantises_at_run_time(*instruction)) return true;
    }
  }
  return false;
}

void add_kernels(std::span<const KernelReport> kernels, StageReport& report) {
  for (const KernelReport& kernel : kernels) {
    ValueReport value;
    value.name = kernel.kernel;
    value.where = fmt::format("at '{}'", escape(kernel.worst_at));
    value.error = kernel.error;
    value.limit = kernel.limit;
    value.problem = kernel.problem;
    if (!value.problem.empty() && report.problem.empty()) {
      report.problem = fmt::format("{} {}: {}", value.name, value.where, value.problem);
    }
    report.values.push_back(std::move(value));
  }
}

ValueReport judge_value(const std::string& name, const Box& actual, const Box& expected,
                        const Tolerance& tolerance, bool quantises,
                        const DistributionLimits& limits) {
  ValueReport value;
  value.name = name;
  if (expected.is_tensor()) {
    value.type = to_string(expected.tensor().type(), expected.tensor().dims());
  }
  const Difference difference = compare_values(actual, expected, tolerance);
  value.error = difference.error;
  value.limit = difference.limit;
  value.problem = difference.text;
  const bool are_logits = quantises && expected.is_tensor() && actual.is_tensor() &&
                          is_floating(expected.tensor().type()) && expected.tensor().rank() > 0 &&
                          std::isfinite(difference.error);
  if (!are_logits || difference.equal()) return value;
  const Divergence divergence = compare_distributions(actual.tensor(), expected.tensor());
  value.judged = fmt::format(
      "mean KL {:.2g} (at most {:.2g}), top-1 {:.1f} %, noise {:.2g} (at most {:.2g})",
      divergence.mean_kl, limits.kl, 100 * divergence.top1, divergence.noise, limits.noise);
  const bool same =
      (divergence.mean_kl <= limits.kl || divergence.top1 == 1) && divergence.noise <= limits.noise;
  value.problem = same ? "" : value.judged;
  return value;
}

VerificationReport verify_program(const Program& imported, std::span<const VerificationCase> cases,
                                  const VerificationOptions& options) {
  return Verification(imported, cases, options).run();
}

}  // namespace lathe
