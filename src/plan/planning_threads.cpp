// SPDX-License-Identifier: MIT
#include "plan/planning_threads.h"

namespace lathe {
namespace {

thread_local ThreadPool* current_pool = nullptr;
thread_local int depth = 0;

}  // namespace

PlanningThreads::PlanningThreads(ThreadPool* pool) : outer_(current_pool) {
  current_pool = pool;
  ++depth;
}

PlanningThreads::~PlanningThreads() {
  current_pool = outer_;
  --depth;
}

ThreadPool* PlanningThreads::current() { return current_pool; }

bool PlanningThreads::planning() { return depth > 0; }

}  // namespace lathe
