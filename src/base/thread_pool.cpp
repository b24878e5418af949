// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/os_thread.h"

namespace lathe {
namespace {

constexpr std::chrono::microseconds kSpin{20};

// Waits until `ready` holds, for at most the spin time.
template <class F>
bool spin_until(F&& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// A thread's own part of a region; on a line of its own, so that taking a chunk of it moves nothing
// between cores.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

// The chunks of one region, cut evenly into shares.
struct Region {
  Region(int64_t n, int64_t g, RangeBody b, std::span<Share> s)
      : count(n), grain(g), body(b), shares(s) {
    const int64_t chunks = (n - 1) / g + 1;
    const auto parts = static_cast<int64_t>(s.size());
    int64_t begin = 0;
    for (int64_t part = 0; part < parts; ++part) {
      Share& share = s[static_cast<size_t>(part)];
      share.next.store(begin, std::memory_order_relaxed);
      begin += chunks / parts * g + (part < chunks % parts ? g : 0);
      share.end = std::min(n, begin);
    }
  }

  // The thread's own share first, then what others have left of theirs.
  void work(size_t own) {
    for (size_t i = 0; i < shares.size(); ++i) {
      take(shares[own]);
      own = own + 1 < shares.size() ? own + 1 : 0;
    }
  }

  const int64_t count;
  const int64_t grain;
  const RangeBody body;
  const std::span<Share> shares;
  std::mutex error_mutex;
  std::exception_ptr error;
  int64_t error_begin = std::numeric_limits<int64_t>::max();

 private:
  void take(Share& share) {
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const int64_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= share.end) return;
      try {
        body(begin, std::min(share.end, begin + grain));
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
};

}  // namespace

// A worker announces itself in `inside` before it looks at `region`; the caller clears `region`
// before it looks at `inside`: one of them sees the other, and nobody works on a region that ended.
struct ThreadPool::Impl {
  Impl(int threads, bool pinned)
      : spins(threads <= available_cores()), all_shares(static_cast<size_t>(threads)) {
    for (int i = 1; i < threads; ++i) {
      try {
        workers.emplace_back([this, i, pinned] {
          if (pinned) pin_this_thread(i);
          serve(static_cast<size_t>(i));
        });
      } catch (const std::system_error&) {
        break;  // no more threads to have: the pool works with fewer
      }
    }
  }

  ~Impl() {
    stopping = true;
    epoch.fetch_add(1);
    epoch.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void serve(size_t own) {
    int seen = 0;
    while (true) {
      const auto is_new = [&] { return epoch.load(std::memory_order_acquire) != seen; };
      if (!spins || !spin_until(is_new)) epoch.wait(seen);
      seen = epoch.load();
      if (stopping) return;
      inside.fetch_add(1);
      if (Region* mine = region.load(); mine != nullptr) mine->work(own);
      if (inside.fetch_sub(1) == 1) inside.notify_all();
    }
  }

  void run(Region& mine) {
    const int64_t chunks = (mine.count - 1) / mine.grain + 1;
    region = &mine;
    epoch.fetch_add(1);
    if (chunks > static_cast<int64_t>(workers.size())) {
      epoch.notify_all();
    } else {
      for (int64_t i = 1; i < chunks; ++i) epoch.notify_one();
    }
    mine.work(0);
    region = nullptr;
    if (spins) spin_until([&] { return inside.load(std::memory_order_acquire) == 0; });
    for (int busy_workers = inside; busy_workers != 0; busy_workers = inside) {
      inside.wait(busy_workers);
    }
  }

  std::span<Share> shares() { return std::span(all_shares).first(workers.size() + 1); }

  const bool spins;
  const uint64_t generation = fork_generation();
  std::atomic<bool> busy{false};
  std::atomic<bool> stopping{false};
  alignas(64) std::atomic<int> epoch{0};  // rises with every region
  alignas(64) std::atomic<int> inside{0};
  std::atomic<Region*> region{nullptr};
  std::vector<Share> all_shares;  // the running region's
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads, bool pinned)
    : threads_(threads > 0 ? threads : available_cores()), pinned_(pinned) {
  impl_ = new Impl(threads_, pinned_);
}

ThreadPool::~ThreadPool() {
  // After fork() there is nobody to join: the parent's workers stay the parent's.
  Impl* impl = impl_;
  if (impl->generation == fork_generation()) delete impl;
}

// In a child of fork(): workers of its own, in place of the parent's, whose state is left as it is.
ThreadPool::Impl& ThreadPool::impl() {
  Impl* found = impl_.load(std::memory_order_acquire);
  while (found->generation != fork_generation()) {
    auto own = std::make_unique<Impl>(threads_, pinned_);
    if (impl_.compare_exchange_strong(found, own.get())) return *own.release();
  }
  return *found;
}

int ThreadPool::threads() const { return static_cast<int>(impl_.load()->workers.size()) + 1; }

void ThreadPool::run(int64_t count, int64_t grain, RangeBody body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  Impl& pool = impl();
  Share whole;
  const bool alone =
      count <= grain || pool.workers.empty() || pool.busy.exchange(true, std::memory_order_acquire);
  Region mine(count, grain, body, alone ? std::span(&whole, 1) : pool.shares());
  if (alone) {
    mine.work(0);
  } else {
    pool.run(mine);
    pool.busy.store(false, std::memory_order_release);
  }
  if (mine.error != nullptr) std::rethrow_exception(mine.error);
}

void touch_first(ThreadPool* pool, void* memory, int64_t bytes) {
  constexpr int64_t kPiece = 2 << 20, kPage = 4096;
  parallel_for(pool, bytes, kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kPage) static_cast<volatile char*>(memory)[i] = 0;
  });
}

}  // namespace lathe
