// SPDX-License-Identifier: MIT
// A file of trace events (JSON), as chrome://tracing and Perfetto read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>

namespace lathe::ort_plugin {

// What runs of a group copied, in bytes; what is not here is read and written in place.
struct CopiedBytes {
  int64_t inputs = 0;
  int64_t outputs = 0;  // from private buffers and from values of unknown shape
};

// Thread-safe. The file is a valid JSON array after close; viewers also read it before.
class TraceFile {
 public:
  // Io if the file cannot be created.
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  using Time = std::chrono::steady_clock::time_point;
  // Adds the events of one run, a JSON array with times relative to `begin`, and its copies.
  void add(std::string_view group, Time begin, std::string_view events, const CopiedBytes& copied);

 private:
  std::mutex mutex_;
  std::ofstream file_;
  Time start_ = std::chrono::steady_clock::now();
};

}  // namespace lathe::ort_plugin
