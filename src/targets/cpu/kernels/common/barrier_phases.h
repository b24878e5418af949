// SPDX-License-Identifier: MIT
// Work in phases, each of the same parts and each after the whole of the one before it, inside one
// parallel region: a region for each would take longer than a short phase does.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/os_thread.h"

namespace lathe::cpu {

// Nobody waits for a thread that has not come: a part that stays free goes to whoever has nothing
// else to do. A thread asks first for the part that it had before, whose operands its cache holds.
class Phases {
 public:
  static constexpr int kMostParts = 64;

  // At most kMostParts parts.
  Phases(int phases, int parts) : phases_(phases), parts_(parts) {}

  // Calls body(phase, part) for parts that no other thread has taken, and returns after the last
  // phase. The body must not throw. `home` is the part to ask for first.
  template <class F>
  void work(int home, F&& body) {
    home %= parts_;
    for (int phase = ended(); phase < phases_; ++phase) {
      const auto run = [&](int part) {
        if (!take(phase, part)) return false;
        body(phase, part);
        end(phase, part);
        return true;
      };
      bool had = run(home);
      for (int waits = 0; ended() <= phase; ++waits) {
        // The look at a part that someone is about to take delays him.
        if (had && waits % kPatience != kPatience - 1) {
          pause_briefly();
          continue;
        }
        bool found = false;
        for (int part = 0; part < parts_; ++part) {
          if (!run(part)) continue;
          if (!had) home = part;
          had = found = true;
        }
        if (!found && waits >= kSpins) sleep(phase);
      }
    }
  }

 private:
  static constexpr int kPatience = 64;
  static constexpr int kSpins = 1000;
  static constexpr size_t kApart = 128;  // a processor may fetch lines by pairs

  struct Part {
    alignas(kApart) std::atomic<int> taken{0};  // phases in which someone took it
    alignas(kApart) std::atomic<int> ended{0};  // and left it done
  };

  // Whole phases.
  int ended() const {
    int least = phases_;
    for (int part = 0; part < parts_; ++part) {
      least = std::min(least, state_[at(part)].ended.load(std::memory_order_acquire));
    }
    return least;
  }

  bool take(int phase, int part) {
    std::atomic<int>& taken = state_[at(part)].taken;
    int expected = phase;
    return taken.load(std::memory_order_relaxed) == phase &&
           taken.compare_exchange_strong(expected, phase + 1, std::memory_order_relaxed);
  }

  void end(int phase, int part) {
    std::atomic<int>& ended = state_[at(part)].ended;
    ended.store(phase + 1);
    if (sleepers_.load() != 0) ended.notify_all();  // in this order, as `sleep` has the other
  }

  // A part may have been left to a thread whose core others keep busy.
  void sleep(int phase) {
    sleepers_.fetch_add(1);
    for (int part = 0; part < parts_; ++part) state_[at(part)].ended.wait(phase);
    sleepers_.fetch_sub(1);
  }

  static size_t at(int part) { return static_cast<size_t>(part); }

  const int phases_;
  const int parts_;
  alignas(kApart) std::atomic<int> sleepers_{0};
  std::array<Part, kMostParts> state_;
};

}  // namespace lathe::cpu
