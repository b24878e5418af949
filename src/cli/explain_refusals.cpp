// SPDX-License-Identifier: MIT
#include "cli/explain_refusals.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/compiled_source.h"
#include "ir/ops.h"
#include "passes/fuse_regions.h"
#include "targets/target.h"

namespace lathe::cli {
namespace {

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

std::string why_not_joined(const Target& target, const Value& value, const Use& use, bool cuts) {
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
  if (!reason.empty()) return reason;
  return cuts ? "runs were faster without, as measured" : "no rule joins them";
}

std::optional<Dim> known(const std::optional<Dim>& bytes, const ValueSizes& sizes) {
  const std::optional<int64_t> value = bytes ? sizes.value(*bytes) : std::nullopt;
  return value ? std::optional<Dim>(*value) : bytes;
}

// Unknown ones count nothing.
std::optional<Dim> sum_of(const std::optional<Dim>& a, const std::optional<Dim>& b) {
  if (!a || !b) return a ? a : b;
  try {
    return *a + *b;
  } catch (const Error&) {
    return std::nullopt;  // too large
  }
}

int64_t least(const std::optional<Dim>& bytes) {
  if (!bytes) return -1;
  const auto value =
      bytes->evaluate([](const Symbol& symbol) { return std::max<int64_t>(symbol.range.min, 1); });
  return value.value_or(-1);
}

void sort_by_bytes(std::vector<Refusal>& refusals) {
  const auto order = [](const Refusal& r) {
    return std::tuple(-least(r.bytes), r.launch, r.reader.value_or(0), r.kind);
  };
  std::sort(refusals.begin(), refusals.end(),
            [&](const Refusal& a, const Refusal& b) { return order(a) < order(b); });
}

std::string bytes_text(const std::optional<Dim>& bytes) {
  return bytes ? fmt::format("{} bytes", bytes->to_string()) : "unknown bytes";
}

}  // namespace

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
    if (row.reason.empty() && row.refusal.empty()) continue;
    const std::optional<Dim> bytes = known(symbolic_launch_bytes(launch), sizes);
    if (!row.reason.empty()) {
      refusals.push_back({Refusal::Kind::kernel, i, std::nullopt, row.reason, bytes});
    }
    if (!row.refusal.empty()) {
      refusals.push_back({Refusal::Kind::compute, i, std::nullopt, row.refusal, bytes});
    }
  }
  const std::shared_ptr<const Target> target = find_target(plan.target);
  const CompiledSource* file = compiled_source(*plan.program);
  const bool cuts = file != nullptr && file->tuned().find("cut behind") != std::string::npos;
  for (const auto& [instruction, at] : kernels) {
    for (const Value& result : instruction->results()) {
      for (const Use& use : result.uses()) {
        const auto reader = kernels.find(use.user);
        if (reader == kernels.end()) continue;
        refusals.push_back({Refusal::Kind::fusion, at, reader->second,
                            why_not_joined(*target, result, use, cuts),
                            known(symbolic_bytes(result, 2), sizes)});
      }
    }
  }
  sort_by_bytes(refusals);
  return refusals;
}

std::string refusals_text(const std::vector<Refusal>& refusals, const std::vector<LaunchRow>& rows,
                          bool all) {
  if (refusals.empty()) return "";
  std::string text = fmt::format("refusals: {}\n", refusals.size());
  if (all) {
    for (const Refusal& refusal : refusals) {
      text += fmt::format("  {:<24} {}: {}{}: {}\n", bytes_text(refusal.bytes),
                          to_string(refusal.kind), rows[refusal.launch].name,
                          refusal.reader ? fmt::format(", {}", rows[*refusal.reader].name) : "",
                          escape(refusal.reason));
    }
    return text;
  }
  std::map<std::pair<Refusal::Kind, std::string>, size_t> groups;
  std::vector<Refusal> sums;
  std::vector<int64_t> counts;
  for (const Refusal& refusal : refusals) {
    const auto [at, added] = groups.try_emplace({refusal.kind, refusal.reason}, sums.size());
    if (added) {
      sums.push_back(refusal);
      sums.back().launch = at->second;
      counts.push_back(1);
      continue;
    }
    ++counts[at->second];
    sums[at->second].bytes = sum_of(sums[at->second].bytes, refusal.bytes);
  }
  sort_by_bytes(sums);
  for (const Refusal& sum : sums) {
    text += fmt::format("  {:>5}  {:<24} {}: {}\n", counts[sum.launch], bytes_text(sum.bytes),
                        to_string(sum.kind), escape(sum.reason));
  }
  return text;
}

}  // namespace lathe::cli
