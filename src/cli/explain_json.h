// SPDX-License-Identifier: MIT
// What `explain --json` prints and the page of `explain --html` shows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/explain_run.h"

namespace lathe::cli {

struct Explanation {
  std::string model;
  std::string notes;
  const Plan* plan = nullptr;
  std::vector<LaunchRow> rows;
  std::vector<LaunchRow> prompt_rows;  // of the prefill plan of a decoder that has one
  std::optional<ExplainedRun> run;
};

// Problems of the program's compiled file with the choices that were measured; null: none.
nlohmann::ordered_json measured_choices(const Plan& plan);
nlohmann::ordered_json explanation_json(const Explanation& explanation);

}  // namespace lathe::cli
