// SPDX-License-Identifier: MIT
// A queue runs launches in order; wait() returns when all have ended.
#pragma once

#include <exception>
#include <utility>

namespace lathe {

// Work whose operands stay allocated until the queue has run it.
class Work {
 public:
  virtual ~Work() = default;
  virtual void execute() = 0;
};

class Queue {
 public:
  virtual ~Queue() = default;
  // Runs `work` now or later, after everything enqueued before. After a failure, later work of the
  // same run is skipped. Allocates nothing once the queue has reached its working size.
  virtual void enqueue(Work& work) = 0;
  // Returns when all work has ended; rethrows the first failure and clears it.
  virtual void wait() = 0;
  // The next wait throws this.
  virtual void fail(std::exception_ptr failure) = 0;
};

// Runs work at once, on the caller.
class InlineQueue final : public Queue {
 public:
  void enqueue(Work& work) override {
    if (failure_ != nullptr) return;
    try {
      work.execute();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void wait() override {
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void fail(std::exception_ptr failure) override { failure_ = std::move(failure); }

 private:
  std::exception_ptr failure_;
};

}  // namespace lathe
