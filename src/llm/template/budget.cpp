// SPDX-License-Identifier: MIT
#include "llm/template/budget.h"

#include <time.h>

#include <algorithm>

#include "llm/template/errors.h"

namespace lathe::templates {
namespace {

thread_local Budget* current_budget = nullptr;
constexpr uint64_t kStepsBetweenLooks = 2048;

// CPU time of this thread.
std::chrono::nanoseconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

Budget::Budget(const Limits& limits)
    : limits_(limits),
      outer_(current_budget),
      next_look_(std::min(kStepsBetweenLooks, limits.steps)),
      deadline_(thread_time() + limits.time) {
  current_budget = this;
}

Budget::~Budget() { current_budget = outer_; }

Budget* Budget::current() { return current_budget; }

void Budget::look() {
  if (steps_ >= limits_.steps) {
    raise(Exception::limit, "the limit of {} steps is exceeded", limits_.steps);
  }
  if (thread_time() > deadline_) {
    raise(Exception::limit, "the time limit of {} ms is exceeded", limits_.time.count());
  }
  next_look_ = std::min(steps_ + kStepsBetweenLooks, limits_.steps);
}

void Budget::foresee(uint64_t bytes) const {
  if (bytes > limits_.memory || memory_ + bytes > limits_.memory) {
    raise(Exception::limit, "the limit of {} bytes for values is exceeded", limits_.memory);
  }
}

void Budget::take(size_t bytes) {
  foresee(bytes);
  memory_ += bytes;
}

void Budget::enter() {
  if (depth_ >= limits_.depth) {
    raise(Exception::recursion, "the limit of {} nested levels is exceeded", limits_.depth);
  }
  ++depth_;
}

void step(uint64_t count) {
  if (current_budget != nullptr) current_budget->step(count);
}

void foresee(uint64_t bytes) {
  if (current_budget != nullptr) current_budget->foresee(bytes);
}

}  // namespace lathe::templates
