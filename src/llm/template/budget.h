// SPDX-License-Identifier: MIT
// Resource limits of a template. One Budget is current per thread while it parses or renders.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lathe::templates {

struct Limits {
  uint64_t steps = 50'000'000;          // expressions, statements, items and 64 bytes of text each
  size_t memory = size_t{96} << 20;     // bytes of values alive at once
  size_t output = size_t{32} << 20;     // bytes of text rendered
  int depth = 1000;                     // of nested expressions, statements and calls
  std::chrono::milliseconds time{900};  // CPU time of this thread, independent of the load
};

class Budget {
 public:
  explicit Budget(const Limits& limits);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Null outside of parsing and rendering.
  static Budget* current();

  void step(uint64_t count) {
    steps_ += count;
    if (steps_ >= next_look_) look();
  }
  void take(size_t bytes);
  void give(size_t bytes) { memory_ -= bytes < memory_ ? bytes : memory_; }
  // Raises if `bytes` more would exceed the limit.
  void foresee(uint64_t bytes) const;
  void enter();
  void leave() { --depth_; }
  const Limits& limits() const { return limits_; }

 private:
  void look();

  Limits limits_;
  Budget* outer_;
  uint64_t steps_ = 0;
  uint64_t next_look_;
  size_t memory_ = 0;
  int depth_ = 0;
  std::chrono::nanoseconds deadline_;
};

// Apply to the current budget, if any.
void step(uint64_t count = 1);
void foresee(uint64_t bytes);
inline void step_text(size_t bytes) { step(1 + bytes / 64); }

// One level of recursion.
class Level {
 public:
  Level() : budget_(Budget::current()) {
    if (budget_ != nullptr) budget_->enter();
  }
  ~Level() {
    if (budget_ != nullptr) budget_->leave();
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Budget* budget_;
};

}  // namespace lathe::templates
