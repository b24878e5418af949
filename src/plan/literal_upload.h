// SPDX-License-Identifier: MIT
// The copies of a plan's literals to its device: they run while the plan is made.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "plan/device.h"

namespace lathe {

// Large literals are copied by threads of their own: those of the planner make others meanwhile.
class LiteralUpload {
 public:
  LiteralUpload();
  ~LiteralUpload();
  LiteralUpload(const LiteralUpload&) = delete;
  LiteralUpload& operator=(const LiteralUpload&) = delete;

  // Copies a dense tensor, whose elements nothing changes. `kept`: they stay for the plan's sake;
  // others wait for their copy in memory of a limited size.
  void copy(const Device& device, void* to, const Tensor& source, bool kept);
  // Waits for the copies so far; throws the first failure.
  void settle();
  // Those of the plan that this thread is making, before a kernel reads constants of the device
  // when it is made.
  static void settle_current();

 private:
  struct Copy {
    void* to;
    Tensor source;
    bool kept;
  };

  bool start(int threads);
  void run(int threads);
  void run(std::span<const Copy> copies, ThreadPool& pool);
  template <class F>
  void wait(std::unique_lock<std::mutex>& lock, F until);
  void rethrow();

  std::unique_ptr<Stream> stream_;
  bool under_way_ = false;
  LiteralUpload* outer_;
  // Once a thread runs, it alone uses the stream.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Copy> waiting_;
  int64_t held_bytes_ = 0;  // of waiting and running copies whose source is not kept
  bool busy_ = false;
  std::atomic<bool> ends_ = false;
  std::exception_ptr failure_;  // after it nothing is copied
  std::thread thread_;
};

}  // namespace lathe
