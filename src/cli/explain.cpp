// SPDX-License-Identifier: MIT
#include <map>
#include <nlohmann/json.hpp>

#include "base/file_map.h"
#include "cli/commands.h"
#include "cli/execution.h"
#include "cli/language_model.h"
#include "ir/print.h"
#include "llm/model/decoder.h"
#include "passes/set_compute_type.h"
#include "runtime/profiler.h"

namespace lathe::cli {
namespace {

struct Row {
  std::string name;  // of the instruction
  std::string op;
  std::string kernel;  // "cpu.matmul", "ref.add", "view"
  std::string detail;
  std::string reason;   // why the target has no kernel for it
  std::string compute;  // compute type of a GEMM with constant weights
  std::string refusal;  // why it is not the requested one
};

std::string kernel_of(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return "view";
  return launch.kernel == nullptr ? "executor" : std::string(launch.kernel->name());
}

std::vector<Row> rows_of(const Plan& plan, Compute compute) {
  std::vector<Row> rows;
  for (const ModulePlan& module : plan.modules) {
    for (const Launch& launch : module.launches) {
      Row row;
      row.name = describe(launch);
      row.op = launch.instruction == nullptr ? "copy" : op_text(*launch.instruction);
      row.kernel = kernel_of(launch);
      if (launch.instruction != nullptr) {
        row.compute = compute_of(*launch.instruction);
        if (!row.compute.empty()) row.refusal = compute_refusal(*launch.instruction, compute);
      }
      if (launch.kind != LaunchKind::view) {
        if (launch.kernel != nullptr) row.detail = launch.kernel->detail();
        row.reason = launch.reason;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string remark(const Row& row) {
  std::string text = row.reason.empty() ? row.detail : "because " + row.reason;
  if (row.compute.empty()) return text;
  if (!text.empty()) text += "; ";
  text += "computes in " + row.compute;
  return row.refusal.empty() ? text : text + " as " + row.refusal;
}

void print_groups(Output& out, const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, int64_t> groups;
  for (const Row& row : rows) ++groups[{row.kernel, remark(row)}];
  for (const auto& [key, count] : groups) {
    out.write(fmt::format("  {:>5}  {:<28} {}\n", count, key.first, escape(key.second)));
  }
}

nlohmann::ordered_json json_of(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"name", row.name},
                    {"op", row.op},
                    {"kernel", row.kernel},
                    {"detail", row.detail},
                    {"reason", row.reason}});
    if (!row.compute.empty()) list.back()["compute"] = row.compute;
    if (!row.refusal.empty()) list.back()["compute_refusal"] = row.refusal;
  }
  return list;
}

// The explained plan: that of a program, or of the decoder in a model folder.
struct Subject {
  std::shared_ptr<const llm::Decoder> decoder;
  std::shared_ptr<const Plan> own;
  std::string notes;
  const Plan& plan() const { return decoder != nullptr ? decoder->plan() : *own; }
  // The prefill plan of a decoder that has one; else null.
  const Plan* prompt_plan() const { return decoder != nullptr ? decoder->prompt_plan() : nullptr; }
};

std::string json_text(const Subject& subject, Compute compute) {
  const Plan& plan = subject.plan();
  nlohmann::ordered_json json{{"model", plan.program->name}, {"target", plan.target}};
  if (!subject.notes.empty()) json["notes"] = subject.notes;
  json["launches"] = json_of(rows_of(plan, compute));
  if (const Plan* prompt = subject.prompt_plan()) {
    json["prompt_launches"] = json_of(rows_of(*prompt, compute));
  }
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print(Output& out, const std::vector<Row>& rows, bool all) {
  if (!all) return print_groups(out, rows);
  for (const Row& row : rows) {
    out.write(fmt::format("  {:<40} {:<28} {}\n", row.name, row.kernel, escape(remark(row))));
  }
}

Subject open(const ProgramArguments& model, const std::string& overlay, const Options& options) {
  Subject subject;
  if (!is_language_model(model.model)) {
    subject.own = compile(model.load(), compile_options(options));
    return subject;
  }
  llm::DecoderOptions decoder;
  const FolderExecution how =
      execution_of_folder({.folder = model.model, .overlay = overlay}, options);
  decoder.target = how.target.target;
  decoder.encoder_target = how.target.encoder;
  decoder.overlay = overlay;
  decoder.compute = compute_option(options);
  decoder.passes = pass_options(options);
  subject.decoder = std::make_shared<const llm::Decoder>(model.model, decoder);
  subject.notes = to_string(subject.decoder->notes());
  return subject;
}

}  // namespace

int explain(CommandLine& line) {
  ProgramArguments model;
  bool json = false;
  bool all = false;
  std::string overlay;
  model.declare(line);
  declare_overlay(line, overlay);
  line.flag("--all", all,
            "Lists every instruction. Default: the number of instructions per kernel.");
  line.flag("--json", json, "Prints one JSON object: target, launches with kernel and reason.");
  line.options({"target", "compute", "timeout"});
  if (!line.parse()) return 0;
  const std::string shown = escape(model.model);
  if (is_language_model(model.model)) {
    line.refuse({"--state", "--timeout"}, fmt::format("the model folder '{}'", shown));
  } else {
    line.refuse({"--config"}, fmt::format("'{}', which is not a model folder", shown));
  }

  const Subject subject = open(model, overlay, line.options());
  const Compute compute = compute_option(line.options());
  if (json) {
    line.out().write(json_text(subject, compute));
    return 0;
  }
  const Plan& plan = subject.plan();
  const std::vector<Row> rows = rows_of(plan, compute);
  line.out().write(
      fmt::format("{} on {}: {} launches\n", escape(model.model), plan.target, rows.size()));
  line.out().write(subject.notes);
  print(line.out(), rows, all);
  if (const Plan* prompt = subject.prompt_plan()) {
    const std::vector<Row> others = rows_of(*prompt, compute);
    line.out().write(fmt::format("prefill: {} launches\n", others.size()));
    print(line.out(), others, all);
  }
  return 0;
}

}  // namespace lathe::cli
