// SPDX-License-Identifier: MIT
// The thread pool of a planner: packs weights and evaluates deferred instructions.
#pragma once

namespace lathe {

class ThreadPool;

// During its lifetime, plans made on this thread use the pool (null: none).
class PlanningThreads {
 public:
  explicit PlanningThreads(ThreadPool* pool);
  ~PlanningThreads();
  PlanningThreads(const PlanningThreads&) = delete;
  PlanningThreads& operator=(const PlanningThreads&) = delete;

  static ThreadPool* current();
  // True on a thread that makes a plan.
  static bool planning();

 private:
  ThreadPool* outer_;
};

}  // namespace lathe
