// SPDX-License-Identifier: MIT
// What verify found, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "runtime/verification.h"

namespace lathe::cli {

enum class CheckStatus : uint8_t { passed, failed, unsupported };
std::string_view to_string(CheckStatus status);

struct Check {
  std::string name;
  CheckStatus status = CheckStatus::passed;
  std::string detail;  // why not, or a remark
  std::vector<ValueReport> values;
};

struct Report {
  std::string model;
  std::string target;
  bool is_tree = false;  // of models: a check for each
  int64_t cases = 0;
  bool quantises = false;
  std::vector<std::string> skipped;
  std::vector<Check> checks;

  int64_t count(CheckStatus status) const;
};

Check to_check(const StageReport& stage);
std::string report_text(const Report& report);
// {"model", "passed", "failed", "unsupported", "list": [{"name", "status", "detail", "values"}]}
std::string report_json(const Report& report);

}  // namespace lathe::cli
