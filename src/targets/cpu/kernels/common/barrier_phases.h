// SPDX-License-Identifier: MIT
// Runs a sequence of phases, each split into the same parts, inside one parallel region. Starting
// a region per phase would cost more than a short phase.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/os_thread.h"

namespace lathe::cpu {

// Idle threads claim unstarted parts, so a late thread blocks no other. A thread first claims the
// part that it ran before: its operands are in that thread's cache.
class Phases {
 public:
  static constexpr int kMaxParts = 64;

  Phases(int phases, int parts) : phases_(phases), parts_(parts) {}

  // Calls body(phase, part) for the parts that this thread claims and returns after the last phase.
  // The body must not throw. `preferred` is the part to claim first.
  template <class F>
  void work(int preferred, F&& body) {
    preferred %= parts_;
    for (int phase = completed(); phase < phases_; ++phase) {
      const auto run = [&](int part) {
        if (!claim(phase, part)) return false;
        body(phase, part);
        complete(phase, part);
        return true;
      };
      bool ran_own = run(preferred);
      for (int waits = 0; completed() <= phase; ++waits) {
        // A load of another thread's counter transfers its cache line, which delays that thread.
        if (ran_own && waits % kSpinsPerScan != kSpinsPerScan - 1) {
          pause_briefly();
          continue;
        }
        bool found = false;
        for (int part = 0; part < parts_; ++part) {
          if (!run(part)) continue;
          if (!ran_own) preferred = part;
          ran_own = found = true;
        }
        if (!found && waits >= kSpins) sleep(phase);
      }
    }
  }

 private:
  static constexpr int kSpinsPerScan = 64;
  static constexpr int kSpins = 1000;
  // The spatial prefetcher fetches cache lines in pairs.
  static constexpr size_t kCacheLinePair = 128;

  struct Part {
    alignas(kCacheLinePair) std::atomic<int> claimed{0};    // phases in which the part was claimed
    alignas(kCacheLinePair) std::atomic<int> completed{0};  // phases in which it completed
  };

  // Phases that all parts have completed.
  int completed() const {
    int least = phases_;
    for (int part = 0; part < parts_; ++part) {
      least = std::min(least, state_[at(part)].completed.load(std::memory_order_acquire));
    }
    return least;
  }

  bool claim(int phase, int part) {
    std::atomic<int>& claimed = state_[at(part)].claimed;
    int expected = phase;
    return claimed.load(std::memory_order_relaxed) == phase &&
           claimed.compare_exchange_strong(expected, phase + 1, std::memory_order_relaxed);
  }

  void complete(int phase, int part) {
    std::atomic<int>& completed = state_[at(part)].completed;
    completed.store(phase + 1);
    // The store precedes the load; `sleep` increments `sleepers_` before it reads `completed`.
    if (sleepers_.load() != 0) completed.notify_all();
  }

  // Blocks until the phase completes: its last part may run on a core that other processes occupy.
  void sleep(int phase) {
    sleepers_.fetch_add(1);
    for (int part = 0; part < parts_; ++part) state_[at(part)].completed.wait(phase);
    sleepers_.fetch_sub(1);
  }

  static size_t at(int part) { return static_cast<size_t>(part); }

  const int phases_;
  const int parts_;
  alignas(kCacheLinePair) std::atomic<int> sleepers_{0};
  std::array<Part, kMaxParts> state_;
};

}  // namespace lathe::cpu
