// SPDX-License-Identifier: MIT
#include "plan/literal_upload.h"

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/thread_pool.h"
#include "plan/planning_threads.h"

namespace lathe {
namespace {

// Less than this is copied before a thread has been started.
constexpr int64_t kLarge = int64_t{4} << 20;
constexpr int64_t kMostHeld = int64_t{128} << 20;
// Copied together: a plan that is given up waits for these.
constexpr int64_t kBatch = int64_t{1} << 30;
constexpr std::chrono::milliseconds kInterruptible{20};

thread_local LiteralUpload* current = nullptr;

BlockCopy block_of(void* to, const Tensor& source) {
  return {to, source.data(), static_cast<size_t>(source.byte_size())};
}

}  // namespace

LiteralUpload::LiteralUpload() : outer_(current) { current = this; }

LiteralUpload::~LiteralUpload() {
  current = outer_;
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

template <class F>
void LiteralUpload::wait(std::unique_lock<std::mutex>& lock, F until) {
  while (!changed_.wait_for(lock, kInterruptible, until)) check_interrupt();
}

void LiteralUpload::copy(const Device& device, void* to, const Tensor& source, bool kept) {
  if (stream_ == nullptr) stream_ = device.make_stream();
  under_way_ = true;
  ThreadPool* pool = PlanningThreads::current();
  const int threads = pool == nullptr ? 1 : pool->threads();
  if (!thread_.joinable()) {
    if (threads == 1 || source.byte_size() < kLarge || !start(threads)) {
      const BlockCopy block = block_of(to, source);
      return stream_->upload({&block, 1}, pool);
    }
  }
  std::unique_lock lock(mutex_);
  if (!kept) {
    wait(lock, [this] { return held_bytes_ <= kMostHeld; });
    held_bytes_ += source.byte_size();
  }
  rethrow();
  waiting_.push_back({to, source, kept});
  changed_.notify_all();
}

bool LiteralUpload::start(int threads) {
  try {
    thread_ = std::thread([this, threads] { run(threads); });
  } catch (const std::system_error&) {
    return false;  // the system has no more threads
  }
  return true;
}

void LiteralUpload::run(int threads) {
  ThreadPool pool(threads);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    std::vector<Copy> copies = std::exchange(waiting_, {});
    busy_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      run(copies, pool);
    } catch (...) {
      failure = std::current_exception();
    }
    int64_t held = 0;
    for (const Copy& copy : copies) held += copy.kept ? 0 : copy.source.byte_size();
    copies.clear();
    lock.lock();
    busy_ = false;
    held_bytes_ -= held;
    if (failure != nullptr) {
      failure_ = failure;
      waiting_.clear();
      held_bytes_ = 0;
    }
    changed_.notify_all();
  }
}

// Up to kBatch at once, until the plan is given up.
void LiteralUpload::run(std::span<const Copy> copies, ThreadPool& pool) {
  std::vector<BlockCopy> blocks;
  int64_t bytes = 0;
  for (const Copy& copy : copies) {
    blocks.push_back(block_of(copy.to, copy.source));
    bytes += copy.source.byte_size();
    if (bytes < kBatch && &copy != &copies.back()) continue;
    if (ends_) return;
    stream_->upload(blocks, &pool);
    blocks.clear();
    bytes = 0;
  }
}

void LiteralUpload::rethrow() {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void LiteralUpload::settle() {
  if (!under_way_) return;
  {
    std::unique_lock lock(mutex_);
    wait(lock, [this] { return waiting_.empty() && !busy_; });
    rethrow();
  }
  stream_->synchronize();
  under_way_ = false;
}

void LiteralUpload::settle_current() {
  if (current != nullptr) current->settle();
}

}  // namespace lathe
