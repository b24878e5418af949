// SPDX-License-Identifier: MIT
// Results of verify, as text and as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/verification.h"

namespace lathe::cli {

enum class CheckStatus : uint8_t { passed, failed, unsupported };
std::string_view to_string(CheckStatus status);

struct Check {
  std::string name;
  CheckStatus status = CheckStatus::passed;
  std::string detail;  // the reason of a failure, or a remark
  std::vector<ValueReport> values;
  int error_code = 0;  // exit code of an error that prevented the comparison; 0: none
};

struct Report {
  std::string model;
  std::string target;
  bool is_tree = false;  // a folder of models with one check each
  int64_t cases = 0;
  bool quantises = false;
  std::vector<std::string> skipped;
  std::vector<Check> checks;
  std::string error;   // the first error that prevented a comparison; "" if there is none
  int error_code = 0;  // its exit code

  int64_t count(CheckStatus status) const;
  // Whether a comparison found a difference.
  bool has_difference() const;
};

Check to_check(const StageReport& stage);
std::string report_text(const Report& report);
// {"model", "passed", "failed", "unsupported", "list": [{"name", "status", "detail", "values"}]};
// an array of several; "error" for a model that could not be verified.
std::string reports_json(std::span<const Report> reports);

}  // namespace lathe::cli
