// SPDX-License-Identifier: MIT
// The results as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/kernels/measure.h"
#include "bench/kernels/peak.h"

namespace lathe::bench {

// All results with one number of threads.
struct Session {
  int threads = 0;
  std::vector<std::string> peers;
  std::vector<Peak> peaks;
  bool peaks_moved = false;   // during all attempts
  double read_bandwidth = 0;  // 0: not measured
  std::vector<Outcome> outcomes;
};

std::string table(const Session& session);

// {"f32": {"vs_onednn": …, "interval": […], "peak_share": …}, …, "peaks", "peers", "cases"}
nlohmann::ordered_json to_json(const Session& session, bool with_cases);

}  // namespace lathe::bench
