// SPDX-License-Identifier: MIT
// What sessions share.
#pragma once

#include <memory>

#include "base/thread_pool.h"

namespace lathe {

// Threads for kernels. A process has one environment unless a caller makes more.
class Environment {
 public:
  // `threads` includes the caller of a run; 0: one per available core.
  explicit Environment(int threads = 0) : pool_(threads) {}
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // The environment of the process, with a thread per available core; made at the first call.
  static const std::shared_ptr<Environment>& process();

  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
};

}  // namespace lathe
