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

// The first error in order of chunks, so that it does not depend on timing.
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

// A thread's part of a region, and where the thread waits for it. What a short region costs is how
// often a line of memory goes from one core to another: all that a thread needs lies on one, which
// the caller writes to begin, the thread to take a chunk and to end. (Some cores fetch lines in
// pairs, so each has a pair.)
//
// `state` decides everything. Who takes a chunk counts itself as running in the same step, and
// reads the other members only then; the caller writes them when nothing is left and nobody runs.
struct alignas(128) Share {
  static constexpr uint64_t kRunning = 0xfff;              // threads at chunks of this share
  static constexpr uint64_t kAsleep = uint64_t{1} << 12;   // the thread waits for the bell
  static constexpr uint64_t kAwaited = uint64_t{1} << 13;  // the caller does
  static constexpr uint64_t kStopping = uint64_t{1} << 14;
  static constexpr uint64_t kNextTurn = uint64_t{1} << 15;
  static constexpr uint64_t kTurn = kNextTurn * 0x1ffff;  // another one with every region
  static constexpr uint64_t kLeft = uint64_t{1} << 32;    // and above: chunks that nobody has taken
  static constexpr int64_t kMostChunks = 0xffffffff;

  std::atomic<uint64_t> state{0};
  std::atomic<int> bell{0};
  int64_t after = 0;  // the last chunk, were it a whole one
  int64_t end = 0;
  int64_t grain = 1;
  RangeBody body;
  FirstError* error = nullptr;

  // A new region: `chunks` are left.
  void give(int64_t chunks, uint64_t turn) {
    const uint64_t now = turn + static_cast<uint64_t>(chunks) * kLeft;
    if ((state.exchange(now, std::memory_order_acq_rel) & kAsleep) != 0) ring();
  }

  // The calling thread works on what is left of the region of that turn.
  void take(uint64_t turn) {
    bool runs = false;
    uint64_t seen = state.load(std::memory_order_relaxed);
    while (seen >= kLeft && (seen & kTurn) == turn) {
      if (!state.compare_exchange_weak(seen, seen - kLeft + (runs ? 0 : 1),
                                       std::memory_order_acquire, std::memory_order_relaxed)) {
        continue;
      }
      runs = true;
      const int64_t begin = after - static_cast<int64_t>(seen / kLeft) * grain;
      error->run(body, begin, std::min(end, begin + grain));
      seen = state.load(std::memory_order_relaxed);
    }
    if (!runs) return;
    seen = state.fetch_sub(1, std::memory_order_acq_rel);
    if ((seen & kRunning) == 1 && (seen & kAwaited) != 0) ring();
  }

  // Waits for who still runs, once nothing is left.
  void wait(bool spins) {
    const auto ended = [this] { return (state.load(std::memory_order_acquire) & kRunning) == 0; };
    if (ended() || (spins && spin_until(ended))) return;
    state.fetch_or(kAwaited);
    sleep_until(ended);
  }

  // The thread of this share waits for another turn than `seen`.
  void wait_for_turn(bool spins, uint64_t seen) {
    const auto is_new = [&] {
      return ((state.load(std::memory_order_relaxed) ^ seen) & (kTurn | kStopping)) != 0;
    };
    if (spins && spin_until(is_new)) return;
    uint64_t awake = state.load();
    do {
      if (is_new()) return;
    } while (!state.compare_exchange_weak(awake, awake | kAsleep));
    // Not until the turn is another: after as many regions as there are turns it is the same again.
    sleep_until([this] { return (state.load() & (kAsleep | kStopping)) != kAsleep; });
  }

  void ring() {
    bell.fetch_add(1);
    bell.notify_all();
  }

 private:
  template <class F>
  void sleep_until(F&& ready) {
    for (int heard = bell; !ready(); heard = bell) bell.wait(heard);
  }
};

}  // namespace

// The shares of a region that ended are empty or another region's: a worker that comes late finds
// nothing in them.
struct ThreadPool::Impl {
  Impl(int threads, bool pinned)
      : shares(std::min(static_cast<size_t>(threads), size_t{Share::kRunning})),
        spins(threads <= available_cores()) {
    for (int i = 1; i < static_cast<int>(shares.size()); ++i) {
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
    for (Share& share : shares) {
      share.state.fetch_or(Share::kStopping);
      share.ring();
    }
    for (std::thread& worker : workers) worker.join();
  }

  void serve(size_t own) {
    uint64_t seen = 0;
    while (true) {
      shares[own].wait_for_turn(spins, seen);
      seen = shares[own].state.load(std::memory_order_relaxed);
      if ((seen & Share::kStopping) != 0) return;
      work(own, seen & Share::kTurn);
    }
  }

  // The thread's own share first, then what others have left of theirs.
  void work(size_t own, uint64_t turn) {
    for (size_t i = 0; i < shares.size(); ++i) {
      shares[own].take(turn);
      own = own + 1 < shares.size() ? own + 1 : 0;
    }
  }

  void run(int64_t count, int64_t grain, RangeBody body, FirstError& error) {
    const int64_t chunks = (count - 1) / grain + 1;
    const int64_t parts = std::min(static_cast<int64_t>(workers.size()) + 1, chunks);
    const int64_t each = chunks / parts, longer = chunks % parts;
    // The caller's first chunk is nobody else's, and often it has no other: that takes no line.
    const auto given = [&](int64_t part) {
      return each + (part < longer ? 1 : 0) - (part == 0 ? 1 : 0);
    };
    // All are described before one is given, so that their lines come at the same time.
    for (int64_t part = 0, after = 0; part < parts; ++part) {
      after += (each + (part < longer ? 1 : 0)) * grain;
      if (given(part) == 0) continue;
      Share& share = shares[static_cast<size_t>(part)];
      share.after = after;
      share.end = std::min(count, after);
      share.grain = grain;
      share.body = body;
      share.error = &error;
    }
    last_turn = (last_turn + Share::kNextTurn) & Share::kTurn;
    for (int64_t part = parts - 1; part >= 0; --part) {
      if (given(part) > 0) shares[static_cast<size_t>(part)].give(given(part), last_turn);
    }
    error.run(body, 0, std::min(count, grain));
    work(0, last_turn);
    for (int64_t part = 0; part < parts; ++part) shares[static_cast<size_t>(part)].wait(spins);
  }

  std::vector<Share> shares;
  const bool spins;
  const uint64_t generation = fork_generation();
  std::vector<std::thread> workers;
  alignas(128) std::atomic<bool> busy{false};
  uint64_t last_turn = 0;
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
  FirstError error;
  if (count <= grain || pool.workers.empty() || count / grain > Share::kMostChunks ||
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
