// SPDX-License-Identifier: MIT
// Prints the operations per second of THREADS threads in registers, by type, as JSON: {"f32": …}.
#include "bench/kernels/peak.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

int main(int count, char** words) {
  const int threads = count == 2 ? std::atoi(words[1]) : 0;
  if (threads < 1 || threads > 1024) {
    std::fputs("usage: bench_peak THREADS\n", stderr);
    return 2;
  }
  const std::vector<lathe::bench::Peak> peaks = lathe::bench::measure_peaks(threads);
  nlohmann::ordered_json json;
  for (const char* type : {"f32", "bf16", "int8"}) json[type] = lathe::bench::fastest(peaks, type);
  std::puts(json.dump().c_str());
}
