// SPDX-License-Identifier: MIT
#include "plan/planning_threads.h"

namespace lathe {
namespace {

thread_local ThreadPool* current_pool = nullptr;

}  // namespace

PlanningThreads::PlanningThreads(ThreadPool* pool) : outer_(current_pool) { current_pool = pool; }

PlanningThreads::~PlanningThreads() { current_pool = outer_; }

ThreadPool* PlanningThreads::current() { return current_pool; }

}  // namespace lathe
