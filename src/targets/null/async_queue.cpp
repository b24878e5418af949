// SPDX-License-Identifier: MIT
#include "targets/null/async_queue.h"

#include <algorithm>
#include <chrono>

namespace lathe {

AsyncQueue::AsyncQueue(uint64_t seed) : pending_(64), random_(seed), thread_([this] { serve(); }) {}

AsyncQueue::~AsyncQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AsyncQueue::enqueue(Work& work) {
  {
    const std::lock_guard lock(mutex_);
    if (count_ == pending_.size()) {
      std::rotate(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(head_),
                  pending_.end());
      head_ = 0;
      pending_.resize(pending_.size() * 2);
    }
    pending_[(head_ + count_) % pending_.size()] = &work;
    ++count_;
  }
  changed_.notify_all();
}

void AsyncQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return count_ == 0; });
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void AsyncQueue::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

void AsyncQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || count_ > 0; });
    if (count_ == 0) return;
    Work* work = pending_[head_];
    const bool skip = failure_ != nullptr;
    const auto delay = std::chrono::microseconds(random_() % 50);
    lock.unlock();
    std::exception_ptr failure;
    if (!skip) {
      std::this_thread::sleep_for(delay);
      try {
        work->execute();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    lock.lock();
    if (failure != nullptr && failure_ == nullptr) failure_ = failure;
    head_ = (head_ + 1) % pending_.size();
    --count_;
    if (count_ == 0) changed_.notify_all();
  }
}

}  // namespace lathe
