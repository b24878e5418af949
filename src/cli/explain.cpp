// SPDX-License-Identifier: MIT
#include <map>

#include "base/file_map.h"
#include "cli/commands.h"
#include "cli/execution.h"
#include "cli/explain_json.h"
#include "cli/explain_page.h"
#include "cli/explain_refusals.h"
#include "cli/explain_step.h"
#include "cli/language_model.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "llm/model/decoder.h"

namespace lathe::cli {
namespace {

std::string remark(const LaunchRow& row) {
  std::string text = row.reason.empty() ? row.detail : "because " + row.reason;
  if (row.compute.empty()) return text;
  if (!text.empty()) text += "; ";
  text += "computes in " + row.compute;
  return row.refusal.empty() ? text : text + " as " + row.refusal;
}

void print_groups(Output& out, const std::vector<LaunchRow>& rows) {
  std::map<std::pair<std::string, std::string>, int64_t> groups;
  for (const LaunchRow& row : rows) ++groups[{row.kernel, remark(row)}];
  for (const auto& [key, count] : groups) {
    out.write(fmt::format("  {:>5}  {:<28} {}\n", count, key.first, escape(key.second)));
  }
}

void print(Output& out, const std::vector<LaunchRow>& rows, bool all) {
  if (!all) return print_groups(out, rows);
  for (const LaunchRow& row : rows) {
    out.write(fmt::format("  {:<40} {:<28} {}\n", row.name, row.kernel, escape(remark(row))));
  }
}

void print_choices(Output& out, const Plan& plan) {
  const auto choices = measured_choices(plan);
  if (choices.empty()) return;
  out.write(fmt::format("measured choices: {}\n", choices.size()));
  for (const auto& [problem, choice] : choices.items()) {
    out.write(fmt::format("  {}: {}\n", escape(problem), escape(choice.get<std::string>())));
  }
}

std::shared_ptr<const llm::Decoder> open_folder(const std::string& folder,
                                                const std::string& overlay,
                                                const Options& options) {
  llm::DecoderOptions decoder;
  const FolderExecution how = execution_of_folder({.folder = folder, .overlay = overlay}, options);
  decoder.target = how.target.target;
  decoder.encoder_target = how.target.encoder;
  decoder.overlay = overlay;
  decoder.compute = compute_option(options);
  decoder.quantize = quantize_option(options);
  decoder.passes = pass_options(options);
  return std::make_shared<const llm::Decoder>(folder, decoder);
}

// Where the explanation goes.
struct Form {
  bool json = false;
  bool all = false;
  std::string html;  // file
};

void write(const Explanation& explanation, const Form& form, Output& out) {
  if (!form.html.empty()) write_file(form.html, explain_page(explanation_json(explanation)));
  if (form.json) {
    const auto json = explanation_json(explanation);
    out.write(json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return;
  }
  out.write(fmt::format("{} on {}: {} launches\n", escape(explanation.model),
                        explanation.plan->target, explanation.rows.size()));
  out.write(explanation.notes);
  const Plan& plan = *explanation.plan;
  const ValueSizes sizes = explanation.run ? explanation.run->sizes : ValueSizes();
  print(out, explanation.rows, form.all);
  out.write(refusals_text(refusals_of(plan, explanation.rows, sizes), explanation.rows, form.all));
  print_choices(out, plan);
  if (explanation.prompt_rows.empty()) return;
  out.write(fmt::format("prefill: {} launches\n", explanation.prompt_rows.size()));
  print(out, explanation.prompt_rows, form.all);
  out.write(refusals_text(refusals_of(plan, explanation.prompt_rows, {}), explanation.prompt_rows,
                          form.all));
}

// With --html the program runs, so that the page has times.
void explain_program(const ProgramArguments& model, const InputArguments& input, const Form& form,
                     const CommandLine& line) {
  const Options& options = line.options();
  const Compute compute = compute_option(options);
  Explanation explanation;
  explanation.model = model.model;
  if (form.html.empty()) {
    const std::shared_ptr<const Plan> plan = compile(model.load(), compile_options(options));
    explanation.plan = plan.get();
    explanation.rows = launch_rows(*plan, compute);
    write(explanation, form, line.out());
    return;
  }
  std::unique_ptr<Program> program = model.load(input);
  const Inputs inputs =
      make_inputs(*program, input, static_cast<uint64_t>(options.integer("seed")));
  std::vector<std::string> read = files_of(model.model, *program);
  read.insert(read.end(), inputs.files.begin(), inputs.files.end());
  check_output_file("--html", form.html, read);
  Execution execution(std::move(program), options);
  explanation.plan = &execution.plan();
  explanation.rows = launch_rows(execution.plan(), compute);
  explanation.run =
      explain_run(execution, inputs.values, explanation.rows, compile_options(options));
  write(explanation, form, line.out());
}

void explain_decoder(Explanation& explanation, const llm::Decoder& decoder, Compute compute) {
  explanation.notes = to_string(decoder.notes());
  explanation.plan = &decoder.plan();
  explanation.rows = launch_rows(decoder.plan(), compute);
  if (decoder.prompt_plan() != nullptr) {
    explanation.prompt_rows = launch_rows(*decoder.prompt_plan(), compute);
  }
}

// With --html the model computes some tokens.
void explain_folder(const std::string& folder, const std::string& overlay, const Form& form,
                    const CommandLine& line) {
  const Options& options = line.options();
  Explanation explanation;
  explanation.model = folder;
  if (form.html.empty()) {
    const auto decoder = open_folder(folder, overlay, options);
    explain_decoder(explanation, *decoder, compute_option(options));
    write(explanation, form, line.out());
    return;
  }
  const LanguageModel model({.folder = folder, .overlay = overlay}, options);
  check_output_file("--html", form.html, files_of_model(folder));
  explain_decoder(explanation, *model.decoder(), model.compute());
  explanation.run = explain_step(model, explanation.rows);
  write(explanation, form, line.out());
}

}  // namespace

int explain(CommandLine& line) {
  ProgramArguments model;
  InputArguments input;
  Form form;
  std::string overlay;
  model.declare(line, ProgramArguments::Others::language_models);
  declare_overlay(line, overlay);
  line.flag("--all", form.all,
            "Lists every instruction and refusal. Default: their number per kernel and reason.");
  line.flag("--json", form.json,
            "Prints one JSON object: launches with kernel and reason, refusals with bytes.");
  line.text("--html", form.html, "FILE",
            "Runs the program and writes a page: graph, times, roofline, refusals.");
  input.declare(line);
  line.options({"target", "compute", "quantize", "threads", "memory-limit", "timeout", "seed"});
  if (!line.parse()) return 0;
  const std::string shown = escape(model.model);
  if (form.html.empty()) {
    line.refuse({"--input", "--fill", "--mean", "--std", "--scale", "--layout", "--threads",
                 "--memory-limit", "--seed"},
                "an explanation without --html, which runs nothing");
  }
  if (!is_language_model(model.model)) {
    line.refuse({"--config", "--quantize"},
                fmt::format("'{}', which is not a model folder", shown));
    explain_program(model, input, form, line);
    return 0;
  }
  line.refuse({"--state", "--timeout", "--input", "--fill", "--mean", "--std", "--scale",
               "--layout", "--seed"},
              fmt::format("the model folder '{}'", shown));
  explain_folder(model.model, overlay, form, line);
  return 0;
}

}  // namespace lathe::cli
