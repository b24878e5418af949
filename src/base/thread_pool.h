// SPDX-License-Identifier: MIT
// A pool of worker threads for parallel regions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace lathe {

// A non-owning reference to a callable: a parallel region allocates nothing.
class RangeBody {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_const_t<F>, RangeBody>)
  RangeBody(F& body)  // NOLINT: implicit by design
      : object_(&body), call_([](void* object, int64_t begin, int64_t end) {
          (*static_cast<F*>(object))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int64_t);
};

// One region runs at a time; a region that finds the pool busy runs on its caller alone, so nested
// and concurrent regions never wait for each other. Chunks are cut by `grain`, never by the number
// of threads: results do not depend on it.
class ThreadPool {
 public:
  // `threads` counts the caller; 0: one per available core.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Calls body(begin, end) for consecutive chunks of at most `grain` that cover [0, count). The
  // first exception thrown by a chunk is rethrown here once all chunks have ended.
  void run(int64_t count, int64_t grain, RangeBody body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
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

}  // namespace lathe
