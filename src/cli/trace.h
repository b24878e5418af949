// SPDX-License-Identifier: MIT
// --trace: the times of launches as a file.
#pragma once

#include <span>
#include <string>

#include "base/log.h"
#include "runtime/profiler.h"

namespace lathe::cli {

class Trace {
 public:
  // An empty path: no trace. InvalidArgument if the path is one of the files that are read.
  Trace(std::string path, std::span<const std::string> read);
  // Null where nobody wants times: no trace, and a log below level 2.
  Profiler* profiler() { return path_.empty() && !logs(2) ? nullptr : &profiler_; }
  void write() const;  // and log

 private:
  std::string path_;
  Profiler profiler_;
};

}  // namespace lathe::cli
