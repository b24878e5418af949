// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "plan/queue.h"

namespace lathe {

// Runs work on a thread of its own, each piece after a random delay of up to 50 microseconds.
class AsyncQueue final : public Queue {
 public:
  explicit AsyncQueue(uint64_t seed);
  ~AsyncQueue() override;
  void enqueue(Work& work) override;
  void wait() override;
  void fail(std::exception_ptr failure) override;

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Work*> pending_;  // a ring
  size_t head_ = 0;
  size_t count_ = 0;  // waiting or running
  bool stop_ = false;
  std::exception_ptr failure_;
  std::mt19937_64 random_;
  std::thread thread_;
};

}  // namespace lathe
