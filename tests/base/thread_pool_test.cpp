// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/os_memory.h"
#include "base/os_process.h"
#include "base/os_thread.h"

namespace lathe {
namespace {

TEST(ThreadPool, EveryIndexIsVisitedOnceInChunksOfTheGrain) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      std::vector<int> visits(static_cast<size_t>(count));
      auto body = [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % 8, 0);
        EXPECT_LE(end, begin + 8);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      };
      pool.run(count, 8, body);
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(ThreadPool, TheFirstFailingChunkIsReportedAfterAllHaveEnded) {
  ThreadPool pool(3);
  std::atomic<int> ended{0};
  auto body = [&](int64_t begin, int64_t) {
    ++ended;
    if (begin >= 20) throw std::runtime_error(std::to_string(begin));
  };
  for (int i = 0; i < 100; ++i) {
    ended = 0;
    try {
      pool.run(100, 1, body);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "20");
    }
    EXPECT_EQ(ended, 100);
  }
}

TEST(ThreadPool, NestedRegionsRunOnTheirCaller) {
  ThreadPool pool(4);
  std::atomic<int> sum{0};
  auto outer = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto caller = std::this_thread::get_id();
      auto inner = [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        sum += static_cast<int>(to - from);
      };
      pool.run(10, 1, inner);
    }
  };
  pool.run(20, 1, outer);
  EXPECT_EQ(sum, 200);
}

TEST(ThreadPool, ManyCallersShareOnePool) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int t = 0; t < 6; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        int64_t squares[50] = {};
        parallel_for(&pool, 50, 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) squares[i] = i * i;
        });
        for (const int64_t square : squares) total += square;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 6 * 200 * int64_t{40425});
}

TEST(ThreadPool, WorkersRunChunks) {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  auto body = [&](int64_t, int64_t) {
    ++inside;
    // Each of the two chunks waits for the other, so that one thread alone cannot finish.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(inside, 2);
  };
  pool.run(2, 1, body);
}

TEST(ThreadPool, EachThreadStartsWithItsOwnShare) {
  ThreadPool pool(3);
  std::array<std::thread::id, 3> first_round;
  for (int round = 0; round < 20; ++round) {
    std::array<std::thread::id, 3> who;
    std::atomic<int> inside{0};
    auto body = [&](int64_t begin, int64_t) {
      who[static_cast<size_t>(begin)] = std::this_thread::get_id();
      ++inside;
      // No chunk ends before all have started, so that no thread claims from another share.
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (inside < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_EQ(inside, 3);
    };
    pool.run(3, 1, body);
    EXPECT_EQ(who[0], std::this_thread::get_id());
    if (round == 0) first_round = who;
    EXPECT_EQ(who, first_round);
  }
}

// Time proportional to `rounds`.
int64_t busy_work(int64_t rounds) {
  volatile int64_t sum = 0;
  for (int64_t i = 0; i < rounds; ++i) sum = sum + i;
  return sum;
}

// bench/thread_pool.cpp measures the time.
TEST(ThreadPool, RegionsOfSixtyFourCallersAreCorrect) {
  ThreadPool pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 64; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        parallel_for(&pool, 8, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) total += busy_work(100) - 4950 + i;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 64 * 20 * 28);
}

// With more threads than cores, waiting threads must not occupy the cores of working ones.
TEST(ThreadPool, MoreThreadsThanCoresFinishTheirRegions) {
  ThreadPool pool(2 * available_cores() + 1);
  for (int round = 0; round < 500; ++round) {
    std::atomic<int64_t> sum{0};
    parallel_for(&pool, 16, 1, [&](int64_t begin, int64_t) { sum += begin; });
    ASSERT_EQ(sum, 120);
  }
}

// Workers sleep after 20 us without a region, callers after 20 us without the end of a chunk; both
// after 200 us in a burst.
TEST(ThreadPool, SleepingThreadsWakeForRegionsAndTheirEnds) {
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    std::mt19937 random(static_cast<unsigned>(threads));
    std::optional<ThreadPool::Burst> burst;
    for (int round = 0; round < 500; ++round) {
      burst.reset();
      if (round % 4 < 2) burst.emplace(&pool);
      const int64_t count = 1 + random() % 6, rounds = random() % 30000;
      const auto pause = std::chrono::microseconds(random() % (round % 4 == 0 ? 400 : 60));
      std::vector<int> visits(static_cast<size_t>(count));
      parallel_for(&pool, count, 1, [&](int64_t begin, int64_t) {
        busy_work(begin % 2 == 0 ? rounds : 0);
        ++visits[static_cast<size_t>(begin)];
      });
      ASSERT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
      const auto end = std::chrono::steady_clock::now() + pause;
      while (std::chrono::steady_clock::now() < end) pause_briefly();
    }
  }
}

// Processor time of a pool of two, idle for 10 x 5 ms.
int64_t idle_nanoseconds(ThreadPool& pool, bool in_burst) {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  const int64_t begin = used();
  for (int i = 0; i < 10; ++i) {
    std::optional<ThreadPool::Burst> burst;
    if (in_burst) burst.emplace(&pool);
    parallel_for(&pool, 2, 1, [](int64_t, int64_t) { busy_work(100); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return used() - begin;
}

TEST(ThreadPool, WorkersSleepSoonInABurstToo) {
  ThreadPool pool(2);
  EXPECT_LT(idle_nanoseconds(pool, false), 25'000'000);
  EXPECT_LT(idle_nanoseconds(pool, true), 25'000'000);  // awake all the time it would be 50 ms
}

// Consecutive short regions of different lengths: a late worker finds the next region, and must use
// its chunks and its grain.
TEST(ThreadPool, LateWorkersDoNotMixRegions) {
  for (const int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    std::mt19937 random(static_cast<unsigned>(threads));
    std::vector<int64_t> visits(64);
    for (int64_t round = 1; round <= 20000; ++round) {
      const int64_t count = 1 + random() % 64, grain = 1 + random() % 9;
      parallel_for(&pool, count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) visits[static_cast<size_t>(i)] += round;
      });
      for (int64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(visits[static_cast<size_t>(i)], i < count ? round : 0);
        visits[static_cast<size_t>(i)] = 0;
      }
    }
  }
}

TEST(ThreadPool, PinnedWorkersComputeTheSame) {
  ThreadPool pool(2, true);
  std::vector<int64_t> squares(100);
  parallel_for(&pool, 100, 3, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) squares[static_cast<size_t>(i)] = i * i;
  });
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(squares[static_cast<size_t>(i)], i * i);
}

TEST(ThreadPool, TouchedMemoryIsZero) {
  ThreadPool pool(2);
  constexpr int64_t kBytes = 5 << 20;
  void* memory = reserve_pages(kBytes);
  ASSERT_NE(memory, nullptr);
  touch_first(&pool, memory, kBytes);
  for (int64_t i = 0; i < kBytes; i += 4096) EXPECT_EQ(static_cast<char*>(memory)[i], 0);
  release_pages(memory, kBytes);
}

// The child has a copy of the pool but none of its threads.
TEST(ThreadPool, WorksInAChildOfFork) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer cannot start threads after a fork of a multi-threaded process";
#endif
#endif
  ThreadPool pool(3);
  const auto sum = [&] {
    std::atomic<int64_t> total{0};
    parallel_for(&pool, 100, 1, [&](int64_t begin, int64_t) { total += begin; });
    return total.load();
  };
  EXPECT_EQ(sum(), 4950);
  EXPECT_EQ(code_of_child([&] { return sum() == 4950 && sum() == 4950 ? 7 : 1; }), 7);
  EXPECT_EQ(sum(), 4950);
}

}  // namespace
}  // namespace lathe
