// SPDX-License-Identifier: MIT
#include "cli/verify_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace lathe::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string value_text(const ValueReport& value) {
  if (!value.judged.empty()) return fmt::format("{}: {}", escape(value.name), value.judged);
  return fmt::format("{}: {:.2g} (at most {:.2g})", escape(value.name), value.error, value.limit);
}

Json value_json(const ValueReport& value) {
  Json json{{"name", value.name}, {"type", value.type}};
  // JSON cannot represent infinity.
  json["error"] = std::isfinite(value.error) ? Json(value.error) : Json();
  json["limit"] = value.limit;
  if (!value.judged.empty()) json["judged"] = value.judged;
  return json;
}

// The checks that did not pass, and the counts.
std::string tree_text(const Report& report) {
  std::string out =
      fmt::format("{}: {} models on {}\n", escape(report.model), report.cases, report.target);
  for (const Check& check : report.checks) {
    if (check.status == CheckStatus::passed) continue;
    out +=
        fmt::format("  {:<11} {}: {}\n", to_string(check.status), escape(check.name), check.detail);
  }
  return out + fmt::format("{} passed, {} failed, {} unsupported\n",
                           report.count(CheckStatus::passed), report.count(CheckStatus::failed),
                           report.count(CheckStatus::unsupported));
}

}  // namespace

std::string_view to_string(CheckStatus status) {
  constexpr std::array<std::string_view, 3> kNames{"passed", "failed", "unsupported"};
  return kNames[static_cast<size_t>(status)];
}

int64_t Report::count(CheckStatus status) const {
  return std::count_if(checks.begin(), checks.end(),
                       [&](const Check& check) { return check.status == status; });
}

bool Report::has_difference() const {
  return std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.status == CheckStatus::failed && check.error_code == 0;
  });
}

Check to_check(const StageReport& stage) {
  Check check{stage.name, stage.passed() ? CheckStatus::passed : CheckStatus::failed, stage.problem,
              stage.values};
  if (stage.unchanged) check.detail = "no pass changed anything";
  if (!stage.bad_pass.empty()) {
    check.detail = fmt::format("pass '{}' is wrong: {}", stage.bad_pass, stage.problem);
  }
  return check;
}

std::string report_text(const Report& report) {
  if (report.checks.empty() && !report.error.empty()) {
    return fmt::format("{}: {}\n", escape(report.model), report.error);
  }
  if (report.is_tree) return tree_text(report);
  std::string out =
      fmt::format("{}: {} cases on {}\n", escape(report.model), report.cases, report.target);
  for (const std::string& reason : report.skipped) {
    out += fmt::format("  skipped     {}\n", reason);
  }
  if (report.quantises) {
    out +=
        "  rounds activations to integers: instructions are compared on equal inputs, outputs by\n"
        "  mean KL divergence or top-1\n";
  }
  for (const Check& check : report.checks) {
    std::string line = fmt::format("  {:<11} {}", to_string(check.status), check.name);
    if (!check.detail.empty()) line += fmt::format(": {}", check.detail);
    out += line + "\n";
    constexpr size_t kShown = 12;
    for (size_t i = 0; i < std::min(check.values.size(), kShown); ++i) {
      out += fmt::format("                {}\n", value_text(check.values[i]));
    }
    if (check.values.size() > kShown) {
      out += fmt::format("                ({} more)\n", check.values.size() - kShown);
    }
  }
  const int64_t failed = report.count(CheckStatus::failed);
  out += failed == 0 ? fmt::format("passed: {} checks agree with the program as imported\n",
                                   report.checks.size())
                     : fmt::format("failed: {} of {} checks\n", failed, report.checks.size());
  return out;
}

namespace {

Json to_json(const Report& report) {
  if (report.checks.empty() && !report.error.empty()) {
    return {{"model", report.model}, {"error", report.error}};
  }
  Json list = Json::array();
  for (const Check& check : report.checks) {
    Json values = Json::array();
    for (const ValueReport& value : check.values) values.push_back(value_json(value));
    list.push_back({{"name", check.name},
                    {"status", to_string(check.status)},
                    {"detail", check.detail},
                    {"values", std::move(values)}});
  }
  return {{"model", report.model},
          {"target", report.target},
          {"cases", report.cases},
          {"quantises", report.quantises},
          {"skipped", report.skipped},
          {"passed", report.count(CheckStatus::passed)},
          {"failed", report.count(CheckStatus::failed)},
          {"unsupported", report.count(CheckStatus::unsupported)},
          {"list", std::move(list)}};
}

}  // namespace

std::string reports_json(std::span<const Report> reports) {
  Json json = Json::array();
  for (const Report& report : reports) json.push_back(to_json(report));
  if (reports.size() == 1) json = json[0];
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lathe::cli
