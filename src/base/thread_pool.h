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
  RangeBody() = default;  // of nothing; to be assigned
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

// One region runs at a time; a region that finds the pool busy runs on its caller alone, so nested
// and concurrent regions never wait for each other. Chunks are cut by `grain`, never by the number
// of threads: results do not depend on it. A thread begins with its share, the same part of every
// region (the caller's is the first): what it wrote or packed, it reads again. Then it takes chunks
// of others' shares, so that a core which others keep busy delays its own chunk alone.
//
// Idle workers look out for the next region for 20 us, if there is a core for each, then sleep. In
// a child of fork() the pool starts workers of its own.
class ThreadPool {
 public:
  // `threads` counts the caller; 0: one per available core. Pinned workers stay on one core each;
  // the caller's is left to the system.
  explicit ThreadPool(int threads = 0, bool pinned = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Calls body(begin, end) for consecutive chunks of at most `grain` that cover [0, count). The
  // first exception thrown by a chunk is rethrown here once all chunks have ended.
  void run(int64_t count, int64_t grain, RangeBody body);

 private:
  struct Impl;
  Impl& impl();
  std::atomic<Impl*> impl_;
  const int threads_;
  const bool pinned_;
};

// Through the pool, or on the caller alone where there is none.
template <class F>
void parallel_for(ThreadPool* pool, int64_t count, int64_t grain, F&& body) {
  if (pool != nullptr && count > grain) {
    pool->run(count, grain, RangeBody(body));
  } else if (count > 0) {
    body(int64_t{0}, count);
  }
}

// Touches memory that was just reserved from the pool's threads, a large page at a time: on a
// machine of several memory nodes each page comes to lie near the thread in whose share of a region
// over that memory it is. (Only pinned threads stay near it.)
void touch_first(ThreadPool* pool, void* memory, int64_t bytes);

}  // namespace lathe
