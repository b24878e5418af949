// SPDX-License-Identifier: MIT
// Sessions: run-time owners of states and scratch memory over a plan.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/object_pool.h"
#include "runtime/frame.h"
#include "runtime/run_context.h"
#include "tensor/box.h"

namespace lathe {

struct SessionOptions {
  Allocator* allocator = nullptr;  // null: the host's; must outlive the session and its results
  int64_t memory_limit = 0;        // bytes of scratch, outputs and states; 0: none
  MemoryBudget* budget = nullptr;  // another session's, to share its limit
  ThreadPool* pool = nullptr;      // null: kernels run on the calling thread
  int64_t reserve_rows = 32768;    // address space kept for append states without a bound
  std::function<void(std::string_view)> warn{};  // takes warnings; null: the log
};

// Called once per output with its final extents; gives the memory to write it to.
using OutputCallback =
    std::function<TensorView(int index, ElementType type, std::span<const int64_t> dims)>;

struct RunOptions {
  const CancelToken* cancel = nullptr;
  std::optional<Clock::time_point> deadline;
  Profiler* profiler = nullptr;
  // Memory for result i: a tensor of its extents, any strides; entries without data (and results
  // beyond the span) are allocated, or asked from the callback where there is one.
  std::span<const Tensor> outputs;
  const OutputCallback* callback = nullptr;
  // Rows of batched sequences: how many of the rows appended in this run count, per row of axis 0.
  std::span<const int64_t> rows;
  // The sequences whose rows are packed into this run, for programs with sequence operators.
  SequenceStep* step = nullptr;
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Plan> plan, SessionOptions options = {});
  ~Session();

  const Plan& plan() const { return *plan_; }
  // Runs main once: one box per parameter, one per result. Inputs are read in place. A run that
  // fails or is cancelled leaves the states as they were. InvalidArgument while another thread is
  // in this session.
  std::vector<Box> run(std::span<const Box> inputs, const RunOptions& options = {});
  // The same into boxes of the caller's: nothing is allocated for outputs that are bound, nor for
  // tensors of the last run that fit again and that nobody else holds.
  void run(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options);

  const Counters& counters() const { return environment_.counters; }
  const MemoryBudget& memory() const { return *budget_; }

  // States. Lengths of append and window states: the longest row.
  int64_t length(std::string_view state) const;
  void reset();
  void truncate(int64_t length);  // every append state
  // Takes over the states of another session over the same plan.
  void copy_states_from(const Session& other);

 private:
  class Output;
  void check_inputs(std::span<const Box> inputs) const;
  void bind_lengths();
  void bind_state_dims();
  void run_once(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options);
  void run_separate(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options,
                    const Error& why);
  StateStore& store(std::string_view state) const;

  std::shared_ptr<const Plan> plan_;
  SessionOptions options_;
  std::unique_ptr<MemoryBudget, MemoryBudget::Retire> own_budget_;
  MemoryBudget* budget_;
  Environment environment_;
  std::unique_ptr<Frame> frame_;
  std::vector<Argument> arguments_;
  std::unique_ptr<Session> separate_;
  bool poisoned_ = false;
  std::atomic<bool> busy_{false};
};

// Runs a plan without states from any number of threads: each run borrows a session.
class SharedSession {
 public:
  explicit SharedSession(std::shared_ptr<const Plan> plan, SessionOptions options = {});
  ~SharedSession();
  std::vector<Box> run(std::span<const Box> inputs, const RunOptions& options = {});
  void run(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options);

 private:
  std::shared_ptr<const Plan> plan_;
  SessionOptions options_;
  ObjectPool<Session> idle_;
};

}  // namespace lathe
