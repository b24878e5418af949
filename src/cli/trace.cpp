// SPDX-License-Identifier: MIT
#include "cli/trace.h"

#include "base/file_map.h"
#include "cli/outputs.h"

namespace lathe::cli {

Trace::Trace(std::string path, std::span<const std::string> read) : path_(std::move(path)) {
  if (!path_.empty()) check_output_file("--trace", path_, read);
}

void Trace::write() const {
  if (!path_.empty()) write_file(path_, profiler_.chrome_trace());
  for (const Profiler::Event& event : profiler_.events()) {
    const std::chrono::duration<double, std::milli> elapsed = event.end - event.begin;
    log_line(2, fmt::format("{:>10.4f} ms  {}", elapsed.count(), describe(*event.launch)));
  }
}

}  // namespace lathe::cli
