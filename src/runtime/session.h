// SPDX-License-Identifier: MIT
// Sessions run a plan and own its states; scratch memory is borrowed for each run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/execution.h"
#include "tensor/box.h"

namespace lathe {

struct SessionOptions {
  Allocator* allocator = nullptr;  // null: the host's; must outlive the session and its results
  int64_t memory_limit = 0;        // bytes of scratch, outputs and states; 0: none
  MemoryBudget* budget = nullptr;  // of another session, to share its limit
  ThreadPool* pool = nullptr;      // null: kernels run on the calling thread
  int64_t reserve_rows = 32768;    // address space of append states without a bound, in rows
  std::function<void(std::string_view)> warn{};  // receives warnings; null: the log
};

// Called once per output with its shape; returns the memory to write it to.
using OutputCallback =
    std::function<TensorView(int index, ElementType type, std::span<const int64_t> dims)>;

struct RunOptions {
  const CancelToken* cancel = nullptr;
  std::optional<Clock::time_point> deadline;
  Profiler* profiler = nullptr;
  // Memory of result i: a tensor of its shape, with any strides. For entries without data and
  // results beyond the span, the callback, if any, or the session allocates.
  std::span<const Tensor> outputs;
  const OutputCallback* callback = nullptr;
  // The device in whose memory new result i is made, one that kernels of the plan's device write;
  // null, and results beyond the span: the host.
  std::span<const Device* const> devices;
  // Valid appended rows of this run per index of axis 0, for batched sequences; empty: all.
  std::span<const int64_t> rows;
  // Memory of each of Plan::paged, in the plan's space: [pages or slots, …]. Updated in place; of a
  // failed run, too.
  std::span<const TensorView> pages;
};

// A run that was enqueued. The memory of its inputs and results stays until its end.
class StartedRun {
 public:
  virtual ~StartedRun() = default;  // without finish(): waits for the stream, and abandons the run
  // The stream has passed the run.
  virtual void finish() = 0;
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Plan> plan, SessionOptions options = {});
  ~Session();

  const Plan& plan() const { return *plan_; }
  // Runs main once: one box per parameter, one per result. Reads inputs in place. A failed or
  // cancelled run does not change the states. Any number of threads may run a session without
  // states; with states, a second one gets InvalidArgument.
  std::vector<Box> run(std::span<const Box> inputs, const RunOptions& options = {});
  // Runs into the caller's boxes. Does not allocate for bound outputs and for tensors of the last
  // run that have the right shape and no other owner.
  void run(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options);
  // Runs on views, read in place, into the memory that `receiver` returns.
  void run(std::span<const Argument> inputs, Receiver& receiver, const RunOptions& options);
  // Enqueues a run behind other work of `stream`, of the plan's device, and does not wait for it.
  // Null, and nothing has run, where the plan has states or no device, or must be compiled again.
  std::unique_ptr<StartedRun> start(std::span<const Argument> inputs, Receiver& receiver,
                                    const RunOptions& options, std::shared_ptr<Stream> stream);

  Counters counters() const;
  // Results, states and, during a run, scratch.
  const MemoryBudget& memory() const { return *budget_; }
  // Allocates results; counts them.
  MemoryBudget& budget() { return *budget_; }

  // Length of an append or window state: the longest of axis 0.
  int64_t length(std::string_view state) const;
  void reset();
  void truncate(int64_t length);  // every append state
  // Copies the states of another session of the same plan.
  void copy_states_from(const Session& other);

 private:
  class Output;
  class Lease;
  class Started;
  struct Call;
  void make_states();
  void check_inputs(const Call& call) const;
  void bind_lengths(RunContext& context) const;
  void bind_state_dims(RunContext& context) const;
  void bind_pages(RunContext& context) const;
  void run(const Call& call);
  void run_here(const Call& call);
  void begin(Execution& execution, const Call& call);
  void run_once(Execution& execution, const Call& call);
  void run_separate(const Call& call, const Error& why);
  void poison(const Error& error);
  void abandon_run(RunContext& context);
  void add_counters(const Counters& run);
  StateStore& store(std::string_view state) const;

  std::shared_ptr<const Plan> plan_;
  SessionOptions options_;
  std::unique_ptr<MemoryBudget, MemoryBudget::Retire> own_budget_;
  MemoryBudget* budget_;
  std::unique_ptr<MemoryBudget, MemoryBudget::Retire> device_budget_;  // null without a device
  std::unique_ptr<ExecutionPool> own_idle_;  // over the caller's allocator; null: the plan's pool
  // With states on a device: their stream.
  std::unique_ptr<Execution> own_execution_;
  std::vector<std::unique_ptr<StateStore>> states_;
  mutable std::mutex mutex_;  // guards counters_, separate_, poison_
  Counters counters_;
  std::unique_ptr<Session> separate_;
  std::atomic<bool> is_separate_{false};  // separate_ is set
  std::atomic<bool> poisoned_{false};
  std::string poison_;  // the failure that did
  std::atomic<bool> busy_{false};
};

}  // namespace lathe
