// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lathe {
namespace {

constexpr std::chrono::microseconds kSpin{20};

int available_cores() {
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

// Waits until `ready` holds, for at most the spin time.
template <class F>
bool spin_until(F&& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// The chunks of one region, taken in turn by whoever is free.
struct Region {
  Region(int64_t n, int64_t g, RangeBody b) : count(n), grain(g), body(b) {}

  void work() {
    while (true) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        body(begin, std::min(count, begin + grain));
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        // The first in order of chunks, so that the error does not depend on timing.
        if (begin < error_begin) {
          error_begin = begin;
          error = std::current_exception();
        }
      }
    }
  }

  const int64_t count;
  const int64_t grain;
  const RangeBody body;
  std::atomic<int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;
  int64_t error_begin = std::numeric_limits<int64_t>::max();
};

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int threads) : spins(threads <= available_cores()) {
    for (int i = 1; i < threads; ++i) {
      try {
        workers.emplace_back([this] { serve(); });
      } catch (const std::system_error&) {
        break;  // no more threads to have: the pool works with fewer
      }
    }
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      generation.fetch_add(1);
    }
    start.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void serve() {
    uint64_t seen = 0;
    while (true) {
      if (spins) spin_until([&] { return generation.load(std::memory_order_acquire) != seen; });
      Region* mine = nullptr;
      {
        std::unique_lock lock(mutex);
        start.wait(lock, [&] { return generation.load() != seen; });
        seen = generation.load();
        if (stopping) return;
        mine = region;  // null: the region ended before this worker woke
        if (mine != nullptr) active.fetch_add(1);
      }
      if (mine == nullptr) continue;
      mine->work();
      {
        const std::lock_guard lock(mutex);
        active.fetch_sub(1);
      }
      done.notify_one();
    }
  }

  void run(Region& mine) {
    const int64_t chunks = (mine.count - 1) / mine.grain + 1;
    {
      const std::lock_guard lock(mutex);
      region = &mine;
      generation.fetch_add(1, std::memory_order_release);
    }
    if (chunks > static_cast<int64_t>(workers.size())) {
      start.notify_all();
    } else {
      for (int64_t i = 1; i < chunks; ++i) start.notify_one();
    }
    mine.work();
    {
      const std::lock_guard lock(mutex);
      region = nullptr;  // nobody joins from here on
    }
    if (spins) spin_until([&] { return active.load(std::memory_order_acquire) == 0; });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return active.load() == 0; });
  }

  const bool spins;
  std::atomic<bool> busy{false};
  std::mutex mutex;
  std::condition_variable start;
  std::condition_variable done;
  std::atomic<uint64_t> generation{0};  // written under the mutex, as the next three
  std::atomic<int> active{0};
  Region* region = nullptr;
  bool stopping = false;
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads)
    : impl_(std::make_unique<Impl>(threads > 0 ? threads : available_cores())) {}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(int64_t count, int64_t grain, RangeBody body) {
  if (count <= 0) return;
  Region region(count, std::max<int64_t>(grain, 1), body);
  const bool alone = region.count <= region.grain || impl_->workers.empty() ||
                     impl_->busy.exchange(true, std::memory_order_acquire);
  if (alone) {
    region.work();
  } else {
    impl_->run(region);
    impl_->busy.store(false, std::memory_order_release);
  }
  if (region.error != nullptr) std::rethrow_exception(region.error);
}

}  // namespace lathe
