// SPDX-License-Identifier: MIT
// What the frames of a run share.
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

// Scratch memory of frames, and the run that uses it.
struct RunContext {
  RunContext(Allocator& host, const Device* device)
      : reserves(&host == &host_allocator()),
        scratch(host),
        device_scratch(device != nullptr ? device->allocator() : host),
        own_stream(device != nullptr ? device->make_stream() : nullptr),
        stream(own_stream) {}

  bool reserves;  // the host's memory may come from ranges of addresses: no caller's allocator
  BorrowedMemory scratch;
  BorrowedMemory device_scratch;
  std::shared_ptr<Stream> own_stream;  // null for plans without a device
  std::shared_ptr<Stream> stream;      // of the run: its own, or the caller's
  Counters counters;

  BorrowedMemory& scratch_of(Space space) {
    return space == Space::device ? device_scratch : scratch;
  }

  // The run in progress.
  MemoryBudget* budget = nullptr;  // of boxes, which outlive the run
  ThreadPool* pool = nullptr;
  std::span<const std::unique_ptr<StateStore>> states;  // of the session
  std::vector<int64_t> symbols;                         // by SymbolId; -1: unknown
  const CancelToken* cancel = nullptr;
  std::optional<Clock::time_point> deadline;
  Profiler* profiler = nullptr;
  std::span<const TensorView> pages;  // of the plan's paged states

  // Interrupted if the run was cancelled or its deadline has passed.
  void check_cancelled() const;
};

}  // namespace lathe
