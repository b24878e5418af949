// SPDX-License-Identifier: MIT
// What was measured, as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/kernels/measure.h"
#include "bench/kernels/peak.h"

namespace lathe::bench {

// Everything of one number of threads.
struct Session {
  int threads = 0;
  std::vector<std::string> peers;
  std::vector<Peak> peaks;
  bool peaks_moved = false;   // while cases were measured, in the last attempt too
  double read_bandwidth = 0;  // 0: not measured
  std::vector<Outcome> outcomes;
};

std::string table(const Session& session);

// {"f32": {"vs_onednn": …, "interval": […], "peak_share": …}, …, "peaks", "peers", "cases"}
nlohmann::ordered_json to_json(const Session& session, bool with_cases);

}  // namespace lathe::bench
