// SPDX-License-Identifier: MIT
// The threads that may help while a plan is made: to pack weights, to compute what was deferred.
#pragma once

namespace lathe {

class ThreadPool;

// While one lives, the pool (null: none) serves plans made on this thread.
class PlanningThreads {
 public:
  explicit PlanningThreads(ThreadPool* pool);
  ~PlanningThreads();
  PlanningThreads(const PlanningThreads&) = delete;
  PlanningThreads& operator=(const PlanningThreads&) = delete;

  static ThreadPool* current();

 private:
  ThreadPool* outer_;
};

}  // namespace lathe
