// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/os_thread.h"

namespace lathe {
namespace {

constexpr std::chrono::microseconds kSpin{20};
constexpr std::chrono::microseconds kSpinInBurst{200};

// Spins until `ready` returns true, kSpinInBurst has passed, or kSpin without a burst. While
// several threads have bursts, at most one of them has the pool, and the others need the cores.
template <class F>
bool spin_until(const std::atomic<int>& bursts, F&& ready) {
  const auto begin = std::chrono::steady_clock::now();
  auto last_burst = begin, now = begin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
    now = std::chrono::steady_clock::now();
    if (bursts.load(std::memory_order_relaxed) == 1) last_burst = now;
  } while (now - begin < kSpinInBurst && now - last_burst < kSpin);
  return false;
}

// The error of the lowest failing chunk, independent of timing.
struct FirstError {
  void run(RangeBody body, int64_t begin, int64_t end) {
    try {
      body(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (begin < at) {
        at = begin;
        error = std::current_exception();
      }
    }
  }

  std::mutex mutex;
  std::exception_ptr error;
  int64_t at = std::numeric_limits<int64_t>::max();
};

// A thread's static share of a region. Cache-line transfers dominate the cost of a short region, so
// one line holds all that a thread reads: the caller writes it to start, the thread to claim a
// chunk and to finish. (128 bytes: some cores prefetch lines in pairs.)
//
// One CAS on `state` claims a chunk and counts the thread as running; only then may the thread read
// the other members. The caller writes them while no chunk is left and no thread runs.
struct alignas(128) Share {
  static constexpr uint64_t kRunning = 0xfff;              // mask: threads that run its chunks
  static constexpr uint64_t kAsleep = uint64_t{1} << 12;   // the owner sleeps
  static constexpr uint64_t kAwaited = uint64_t{1} << 13;  // the caller sleeps
  static constexpr uint64_t kStopping = uint64_t{1} << 14;
  static constexpr uint64_t kNextEpoch = uint64_t{1} << 15;
  static constexpr uint64_t kEpoch = kNextEpoch * 0x1ffff;  // mask: changes with every region
  static constexpr uint64_t kChunk = uint64_t{1} << 32;     // from this bit: unclaimed chunks
  static constexpr int64_t kMaxChunks = 0xffffffff;

  std::atomic<uint64_t> state{0};
  std::atomic<int> wakeups{0};
  int64_t full_end = 0;  // end of the last chunk, rounded up to the grain
  int64_t end = 0;
  int64_t grain = 1;
  RangeBody body;
  FirstError* error = nullptr;

  // Publishes the chunks of a new region.
  void publish(int64_t chunks, uint64_t epoch) {
    const uint64_t now = epoch + static_cast<uint64_t>(chunks) * kChunk;
    if ((state.exchange(now, std::memory_order_acq_rel) & kAsleep) != 0) wake();
  }

  // Claims and runs chunks of this share until none is left or another region has begun.
  void run_chunks(uint64_t epoch) {
    bool runs = false;
    uint64_t seen = state.load(std::memory_order_relaxed);
    while (seen >= kChunk && (seen & kEpoch) == epoch) {
      if (!state.compare_exchange_weak(seen, seen - kChunk + (runs ? 0 : 1),
                                       std::memory_order_acquire, std::memory_order_relaxed)) {
        continue;
      }
      runs = true;
      const int64_t begin = full_end - static_cast<int64_t>(seen / kChunk) * grain;
      error->run(body, begin, std::min(end, begin + grain));
      seen = state.load(std::memory_order_relaxed);
    }
    if (!runs) return;
    seen = state.fetch_sub(1, std::memory_order_acq_rel);
    if ((seen & kRunning) == 1 && (seen & kAwaited) != 0) wake();
  }

  // Blocks until no thread runs a chunk of this share. All chunks must have been claimed.
  void wait(bool spins, const std::atomic<int>& bursts) {
    const auto ended = [this] { return (state.load(std::memory_order_acquire) & kRunning) == 0; };
    if (ended() || (spins && spin_until(bursts, ended))) return;
    state.fetch_or(kAwaited);
    sleep_until(ended);
  }

  // Blocks the owner until the epoch differs from that of `seen`.
  void wait_for_epoch(bool spins, const std::atomic<int>& bursts, uint64_t seen) {
    const auto is_new = [&] {
      return ((state.load(std::memory_order_relaxed) ^ seen) & (kEpoch | kStopping)) != 0;
    };
    if (spins && spin_until(bursts, is_new)) return;
    uint64_t awake = state.load();
    do {
      if (is_new()) return;
    } while (!state.compare_exchange_weak(awake, awake | kAsleep));
    // Tests kAsleep, not the epoch: while the thread sleeps, the epoch may wrap to the same value.
    sleep_until([this] { return (state.load() & (kAsleep | kStopping)) != kAsleep; });
  }

  void wake() {
    wakeups.fetch_add(1);
    wakeups.notify_all();
  }

 private:
  template <class F>
  void sleep_until(F&& ready) {
    for (int before = wakeups; !ready(); before = wakeups) wakeups.wait(before);
  }
};

}  // namespace

// A share of a finished region is empty or has another epoch, so that a late worker finds no
// chunks.
struct ThreadPool::Impl {
  Impl(int threads, bool pinned, const std::atomic<int>& all_bursts)
      : bursts(all_bursts),
        shares(std::min(static_cast<size_t>(threads), size_t{Share::kRunning})),
        spins(threads <= available_cores()) {
    for (int i = 1; i < static_cast<int>(shares.size()); ++i) {
      try {
        workers.emplace_back([this, i, pinned] {
          if (pinned) pin_this_thread(i);
          serve(static_cast<size_t>(i));
        });
      } catch (const std::system_error&) {
        break;  // the system has no more threads: run with fewer
      }
    }
  }

  ~Impl() {
    for (Share& share : shares) {
      share.state.fetch_or(Share::kStopping);
      share.wake();
    }
    for (std::thread& worker : workers) worker.join();
  }

  void serve(size_t own) {
    uint64_t seen = 0;
    while (true) {
      shares[own].wait_for_epoch(spins, bursts, seen);
      seen = shares[own].state.load(std::memory_order_relaxed);
      if ((seen & Share::kStopping) != 0) return;
      work(own, seen & Share::kEpoch);
    }
  }

  // Runs the thread's own share, then unclaimed chunks of other shares.
  void work(size_t own, uint64_t epoch) {
    for (size_t i = 0; i < shares.size(); ++i) {
      shares[own].run_chunks(epoch);
      own = own + 1 < shares.size() ? own + 1 : 0;
    }
  }

  void run(int64_t count, int64_t grain, RangeBody body, FirstError& error) {
    const int64_t chunks = (count - 1) / grain + 1;
    const int64_t parts = std::min(static_cast<int64_t>(workers.size()) + 1, chunks);
    const int64_t each = chunks / parts, longer = chunks % parts;
    // The caller's first chunk is not published: it is often the only one of its share.
    const auto published = [&](int64_t part) {
      return each + (part < longer ? 1 : 0) - (part == 0 ? 1 : 0);
    };
    // Write all shares before publishing one, so that their cache misses overlap.
    for (int64_t part = 0, full_end = 0; part < parts; ++part) {
      full_end += (each + (part < longer ? 1 : 0)) * grain;
      if (published(part) == 0) continue;
      Share& share = shares[static_cast<size_t>(part)];
      share.full_end = full_end;
      share.end = std::min(count, full_end);
      share.grain = grain;
      share.body = body;
      share.error = &error;
    }
    last_epoch = (last_epoch + Share::kNextEpoch) & Share::kEpoch;
    for (int64_t part = parts - 1; part >= 0; --part) {
      const int64_t chunks_of_part = published(part);
      if (chunks_of_part > 0) shares[static_cast<size_t>(part)].publish(chunks_of_part, last_epoch);
    }
    error.run(body, 0, std::min(count, grain));
    work(0, last_epoch);
    for (int64_t part = 0; part < parts; ++part)
      shares[static_cast<size_t>(part)].wait(spins, bursts);
  }

  const std::atomic<int>& bursts;
  std::vector<Share> shares;
  const bool spins;
  const uint64_t generation = fork_generation();
  std::vector<std::thread> workers;
  alignas(128) std::atomic<bool> busy{false};
  uint64_t last_epoch = 0;
};

ThreadPool::ThreadPool(int threads, bool pinned)
    : threads_(threads > 0 ? threads : available_cores()), pinned_(pinned) {
  impl_ = new Impl(threads_, pinned_, bursts_);
}

ThreadPool::~ThreadPool() {
  // A child of fork() has no workers to join.
  Impl* impl = impl_;
  if (impl->generation == fork_generation()) delete impl;
}

// In a child of fork(), replaces the parent's workers; the old state leaks.
ThreadPool::Impl& ThreadPool::impl() {
  Impl* found = impl_.load(std::memory_order_acquire);
  while (found->generation != fork_generation()) {
    auto own = std::make_unique<Impl>(threads_, pinned_, bursts_);
    if (impl_.compare_exchange_strong(found, own.get())) return *own.release();
  }
  return *found;
}

int ThreadPool::threads() const { return static_cast<int>(impl_.load()->workers.size()) + 1; }

void ThreadPool::run(int64_t count, int64_t grain, RangeBody body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  Impl& pool = impl();
  FirstError error;
  if (count <= grain || pool.workers.empty() || count / grain > Share::kMaxChunks ||
      pool.busy.exchange(true, std::memory_order_acquire)) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      error.run(body, begin, std::min(count, begin + grain));
    }
  } else {
    pool.run(count, grain, body, error);
    pool.busy.store(false, std::memory_order_release);
  }
  if (error.error != nullptr) std::rethrow_exception(error.error);
}

void touch_first(ThreadPool* pool, void* memory, int64_t bytes) {
  constexpr int64_t kPiece = 2 << 20, kPage = 4096;
  parallel_for(pool, bytes, kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kPage) static_cast<volatile char*>(memory)[i] = 0;
  });
}

}  // namespace lathe
