// SPDX-License-Identifier: MIT
// Writes the times of launches to the file of --trace.
#pragma once

#include <span>
#include <string>

#include "base/log.h"
#include "runtime/profiler.h"

namespace lathe::cli {

class Trace {
 public:
  // An empty path: no trace. `read`: the files of this run, which must not be overwritten.
  Trace(std::string path, std::span<const std::string> read);
  // Null without a trace and with a log below level 2.
  Profiler* profiler() { return path_.empty() && !logs(2) ? nullptr : &profiler_; }
  // Writes the file and logs the times at level 2.
  void write() const;

 private:
  std::string path_;
  Profiler profiler_;
};

}  // namespace lathe::cli
