// SPDX-License-Identifier: MIT
// State shared by all frames of a session during a run.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "runtime/counters.h"
#include "runtime/memory.h"
#include "runtime/state_store.h"

namespace lathe {

class Profiler;
class SequenceStep;
class ThreadPool;

// Set from any thread or a signal handler; the run ends with an Interrupted error at the next
// launch.
class CancelToken {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }
  void reset() noexcept { cancelled_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

using Clock = std::chrono::steady_clock;

struct RunContext {
  explicit RunContext(MemoryBudget& memory) : budget(memory) {}

  MemoryBudget& budget;
  Counters counters;
  std::unique_ptr<Queue> queue;
  ThreadPool* pool = nullptr;
  std::vector<std::unique_ptr<StateStore>> states;

  // The run in progress.
  std::vector<int64_t> symbols;  // by SymbolId; -1: unknown
  const CancelToken* cancel = nullptr;
  std::optional<Clock::time_point> deadline;
  Profiler* profiler = nullptr;
  SequenceStep* step = nullptr;

  // Interrupted if the run was cancelled or its deadline has passed.
  void check_cancelled() const;
};

}  // namespace lathe
