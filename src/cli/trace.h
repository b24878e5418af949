// SPDX-License-Identifier: MIT
// --trace: the times of launches as a file.
#pragma once

#include <span>
#include <string>

#include "runtime/profiler.h"

namespace lathe::cli {

class Trace {
 public:
  // An empty path: no trace. InvalidArgument if the path is one of the files that are read.
  Trace(std::string path, std::span<const std::string> read);
  Profiler* profiler() { return path_.empty() ? nullptr : &profiler_; }
  void write() const;

 private:
  std::string path_;
  Profiler profiler_;
};

}  // namespace lathe::cli
