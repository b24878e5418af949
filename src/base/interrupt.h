// SPDX-License-Identifier: MIT
// Lets a caller end long work on its own thread.
#pragma once

#include <chrono>

namespace lathe {

// During its lifetime, check_interrupt() on this thread calls `poll` about every 50 ms. A null poll
// leaves the outer scope in force.
class InterruptScope {
 public:
  using Poll = int (*)(void* context);
  InterruptScope(Poll poll, void* context);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  friend void check_interrupt();
  Poll poll_;
  void* context_;
  InterruptScope* outer_;
  std::chrono::steady_clock::time_point last_;
  bool ended_ = false;
};

// Throws Interrupted once the poll of this thread has returned a result other than 0. Cheap where
// none is set.
void check_interrupt();

}  // namespace lathe
