// SPDX-License-Identifier: MIT
#include "cli/explain_rows.h"

#include <algorithm>
#include <map>

#include "ir/ops.h"
#include "ir/print.h"
#include "passes/fuse_regions.h"
#include "runtime/profiler.h"
#include "targets/target.h"

namespace lathe::cli {
namespace {

std::string kernel_of(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return "view";
  return launch.kernel == nullptr ? "executor" : std::string(launch.kernel->name());
}

// What a region computes first of all and the others follow.
const Instruction& anchor_of(const Instruction& instruction) {
  if (instruction.op() != ops::region) return instruction;
  const Module& body = *instruction.bodies()[0];
  for (const auto& step : body.instructions()) {
    if (!is_elementwise(step->op()) && step->literal() == nullptr) return *step;
  }
  return *body.instructions().front();
}

// The first instruction of the reader that takes the value, and the operand that it is.
std::pair<const Instruction*, int> taker_of(const Use& use) {
  const Instruction& reader = *use.user;
  if (reader.op() != ops::region) return {&reader, use.index};
  const Value& parameter = *reader.bodies()[0]->parameters()[static_cast<size_t>(use.index)];
  if (parameter.uses().empty() || parameter.uses().front().user == nullptr) return {&reader, 0};
  return {parameter.uses().front().user, parameter.uses().front().index};
}

std::string why_not_joined(const Target& target, const Value& value, const Use& use) {
  const Instruction& writer = *value.definition();
  if (!writer.target().empty() || !use.user->target().empty()) {
    return "they run on different targets";
  }
  if (value.uses().size() > 1) {
    return fmt::format("{} places read the value", value.uses().size());
  }
  const auto [taker, operand] = taker_of(use);
  std::string reason = target.why_no_epilogue(anchor_of(writer), *taker, operand);
  if (reason.empty() && is_elementwise(taker->op())) reason = target.why_not_fused(*taker);
  return reason.empty() ? "no rule joins them" : reason;
}

}  // namespace

std::vector<LaunchRow> launch_rows(const Plan& plan, Compute compute) {
  std::vector<LaunchRow> rows;
  for (const ModulePlan& module : plan.modules) {
    for (const Launch& launch : module.launches) {
      LaunchRow row;
      row.launch = &launch;
      row.module = &module;
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

std::string_view to_string(Refusal::Kind kind) {
  switch (kind) {
    case Refusal::Kind::kernel:
      return "kernel";
    case Refusal::Kind::compute:
      return "compute";
    default:
      return "fusion";
  }
}

std::vector<Refusal> refusals_of(const Plan& plan, const std::vector<LaunchRow>& rows,
                                 const ValueSizes& sizes) {
  std::vector<Refusal> refusals;
  std::map<const Instruction*, size_t> kernels;
  for (size_t i = 0; i < rows.size(); ++i) {
    const LaunchRow& row = rows[i];
    const Launch& launch = *row.launch;
    if (launch.kind == LaunchKind::kernel && launch.instruction != nullptr &&
        launch.instruction->op().structural == Structural::none) {
      kernels.emplace(launch.instruction, i);
    }
    const std::optional<int64_t> bytes = launch_bytes(launch, sizes);
    if (!row.reason.empty()) {
      refusals.push_back({Refusal::Kind::kernel, i, std::nullopt, row.reason, bytes});
    }
    if (!row.refusal.empty()) {
      refusals.push_back({Refusal::Kind::compute, i, std::nullopt, row.refusal, bytes});
    }
  }
  const std::shared_ptr<const Target> target = find_target(plan.target);
  for (const auto& [instruction, at] : kernels) {
    for (const Value& result : instruction->results()) {
      for (const Use& use : result.uses()) {
        const auto reader = kernels.find(use.user);
        if (reader == kernels.end()) continue;
        refusals.push_back({Refusal::Kind::fusion, at, reader->second,
                            why_not_joined(*target, result, use),
                            checked_product(2, sizes.bytes(result))});
      }
    }
  }
  const auto order = [](const Refusal& r) {
    return std::tuple(-r.bytes.value_or(-1), r.launch, r.reader.value_or(0), r.kind);
  };
  std::sort(refusals.begin(), refusals.end(),
            [&](const Refusal& a, const Refusal& b) { return order(a) < order(b); });
  return refusals;
}

}  // namespace lathe::cli
