// SPDX-License-Identifier: MIT
#include "cli/trace.h"

#include "base/file_map.h"

namespace lathe::cli {

Trace::Trace(std::string path, std::span<const std::string> read) : path_(std::move(path)) {
  for (const std::string& file : read) {
    check(path_.empty() || !is_same_file(path_, file), ErrorKind::invalid_argument,
          "--trace {}: that is '{}', which this run reads", escape(path_), escape(file));
  }
}

void Trace::write() const {
  if (!path_.empty()) write_file(path_, profiler_.chrome_trace());
  for (const Profiler::Event& event : profiler_.events()) {
    const std::chrono::duration<double, std::milli> elapsed = event.end - event.begin;
    log_line(2, fmt::format("{:>10.4f} ms  {}", elapsed.count(), describe(*event.launch)));
  }
}

}  // namespace lathe::cli
