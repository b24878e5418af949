// SPDX-License-Identifier: MIT
// A pool of worker threads for parallel regions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace lathe {

// A non-owning reference to a callable: a parallel region allocates nothing.
class RangeBody {
 public:
  RangeBody() = default;  // must be assigned before use
  template <class F>
    requires(!std::is_same_v<std::remove_const_t<F>, RangeBody>)
  RangeBody(F& body)  // NOLINT: implicit by design
      : object_(&body), call_([](void* object, int64_t begin, int64_t end) {
          (*static_cast<F*>(object))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_ = nullptr;
  void (*call_)(void*, int64_t, int64_t) = nullptr;
};

// One region runs at a time. Nested and concurrent regions run on their caller alone, so they never
// block. `grain` alone determines the chunks, so results do not depend on the number of threads.
// Each thread owns a static share of the chunks (the caller the first) for cache affinity, then
// claims chunks from other shares, so that a busy core delays only its current chunk.
//
// Idle workers spin for 20 us, in a burst for 200 us, if there is a core for each, then sleep:
// waking a thread takes longer than most regions of a model. A child of fork() starts its own
// workers.
class ThreadPool {
 public:
  // `threads` includes the caller; 0: one per available core. `pinned` pins each worker to one
  // core, but not the caller.
  explicit ThreadPool(int threads = 0, bool pinned = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // A period in which the caller starts one region after the other, such as a run of a plan.
  class Burst {
   public:
    explicit Burst(ThreadPool* pool) : bursts_(pool == nullptr ? nullptr : &pool->bursts_) {
      if (bursts_ != nullptr) bursts_->fetch_add(1, std::memory_order_relaxed);
    }
    ~Burst() {
      if (bursts_ != nullptr) bursts_->fetch_sub(1, std::memory_order_relaxed);
    }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

   private:
    std::atomic<int>* bursts_;
  };

  int threads() const;
  // Calls body(begin, end) for consecutive chunks of at most `grain` that cover [0, count).
  // Rethrows the exception of the lowest failing chunk after all chunks have ended.
  void run(int64_t count, int64_t grain, RangeBody body);

 private:
  struct Impl;
  Impl& impl();
  alignas(128) std::atomic<int> bursts_{0};  // read by all spinning threads
  alignas(128) std::atomic<Impl*> impl_;
  const int threads_;
  const bool pinned_;
};

// Runs on the pool, or on the caller if `pool` is null.
template <class F>
void parallel_for(ThreadPool* pool, int64_t count, int64_t grain, F&& body) {
  if (pool != nullptr && count > grain) {
    pool->run(count, grain, RangeBody(body));
  } else if (count > 0) {
    body(int64_t{0}, count);
  }
}

// Commits reserved memory from the pool's threads, one large page at a time: under NUMA
// first-touch, each page is local to the thread whose share contains it. Effective with pinned
// threads.
void touch_first(ThreadPool* pool, void* memory, int64_t bytes);

}  // namespace lathe
