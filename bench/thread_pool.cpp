// SPDX-License-Identifier: MIT
// Overhead of parallel regions over serial execution: many concurrent callers, more threads than
// cores, a child of fork(), consecutive regions. Prints a table with the limit of each row.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/os_process.h"
#include "base/os_thread.h"
#include "base/thread_pool.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 25;
constexpr int64_t kChunks = 8;          // per region
constexpr int64_t kRepetitions = 6000;  // per chunk: about two microseconds
constexpr double kMaxRatio = 2;         // of the serial time
constexpr double kMaxEach = 1e-6;       // seconds of an empty region

auto work = [](int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    volatile int64_t sum = 0;
    for (int64_t round = 0; round < kRepetitions; ++round) sum = sum + round;
  }
};

template <class F>
double seconds_of(F&& body) {
  const auto begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double serial(int64_t regions) {
  return seconds_of([&] {
    for (int64_t i = 0; i < regions; ++i) work(0, kChunks);
  });
}

double on_pool(ThreadPool& pool, int64_t regions) {
  return seconds_of([&] {
    for (int64_t i = 0; i < regions; ++i) parallel_for(&pool, kChunks, 1, work);
  });
}

// Seconds until all callers, started together, have finished.
double many_callers(ThreadPool& pool, int callers, int64_t regions) {
  std::latch ready(callers + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i) {
    threads.emplace_back([&] {
      ready.arrive_and_wait();
      on_pool(pool, regions);
    });
  }
  return seconds_of([&] {
    ready.arrive_and_wait();
    for (std::thread& thread : threads) thread.join();
  });
}

// Runs in a child of fork(), which has a copy of the pool but none of its threads.
double in_child(ThreadPool& pool, int64_t regions) {
  void* shared =
      mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(shared != MAP_FAILED, ErrorKind::io, "cannot map {} shared bytes", sizeof(double));
  auto* seconds = static_cast<double*>(shared);
  const int code = code_of_child([&] {
    *seconds = on_pool(pool, regions);
    return 0;
  });
  const double taken = *seconds;
  munmap(shared, sizeof(double));
  check(code == 0, ErrorKind::internal, "child exited with code {}", code);
  return taken;
}

double empty_regions(ThreadPool& pool, int64_t regions) {
  auto nothing = [](int64_t, int64_t) {};
  return seconds_of([&] {
    for (int64_t i = 0; i < regions; ++i) parallel_for(&pool, pool.threads(), 1, nothing);
  });
}

// Each chunk waits for all others, so that every thread must take part.
double barrier_regions(ThreadPool& pool, int64_t regions) {
  std::atomic<int64_t> arrived{0};
  return seconds_of([&] {
    for (int64_t i = 1; i <= regions; ++i) {
      const int64_t all = i * pool.threads();
      parallel_for(&pool, pool.threads(), 1, [&](int64_t, int64_t) {
        arrived.fetch_add(1);
        while (arrived.load(std::memory_order_acquire) < all) pause_briefly();
      });
    }
  });
}

struct Row {
  std::string name;
  std::function<double()> measure;
  std::function<double()> serial;  // null: prints the time per region
  int64_t regions = 1;
  bool has_bar = true;
  std::vector<double> times{}, serial_times{}, ratios{};
};

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

void print(const Row& row) {
  const double time = median(row.times);
  const auto [least, most] = std::minmax_element(row.ratios.begin(), row.ratios.end());
  const auto verdict = [&](bool held) { return !row.has_bar ? "" : held ? "held" : "missed"; };
  if (row.serial == nullptr) {
    fmt::print("{:<48} {:>8.3f} us {:>11} {:>5} {:>13} {:>12} {}\n", row.name, time * 1e6, "", "",
               fmt::format("({:.3f}-{:.3f})", *least * 1e6, *most * 1e6),
               row.has_bar ? fmt::format("<= {:.0f} us", kMaxEach * 1e6) : "",
               verdict(time <= kMaxEach));
    return;
  }
  const double ratio = median(row.ratios);
  fmt::print("{:<48} {:>8.2f} ms {:>8.2f} ms {:>5.2f} {:>13} {:>12} {}\n", row.name, time * 1e3,
             median(row.serial_times) * 1e3, ratio, fmt::format("({:.2f}-{:.2f})", *least, *most),
             fmt::format("<= {:.0f}x", kMaxRatio), verdict(ratio <= kMaxRatio));
}

void main() {
  const int cores = available_cores();
  ThreadPool pair(2), more(cores + 1), own(cores);
  constexpr int kCallers = 64;
  constexpr int64_t kEach = 10, kMany = 500, kEmpty = 3000, kMet = 300;
  std::vector<Row> rows;
  rows.push_back({fmt::format("{} concurrent callers, a pool of {}", kCallers, own.threads()),
                  [&] { return many_callers(own, kCallers, kEach); },
                  [&] { return serial(kCallers * kEach); }});
  rows.push_back({fmt::format("{} threads on {} cores", more.threads(), cores),
                  [&] { return on_pool(more, kMany); }, [&] { return serial(kMany); }});
  rows.push_back({fmt::format("a child after fork(), a pool of {}", own.threads()),
                  [&] { return in_child(own, kMany); }, [&] { return serial(kMany); }});
  rows.push_back({"consecutive empty regions, 2 threads",
                  [&] { return empty_regions(pair, kEmpty); }, nullptr, kEmpty});
  rows.push_back({"consecutive regions with a barrier, 2 threads",
                  [&] { return barrier_regions(pair, kMet); }, nullptr, kMet, false});
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int threads = 4; threads <= cores; threads *= 2) {
    ThreadPool* pool = pools.emplace_back(std::make_unique<ThreadPool>(threads)).get();
    const auto in_burst = [pool](auto measure, int64_t regions) {
      return [=] {
        const ThreadPool::Burst burst(pool);
        return measure(*pool, regions);
      };
    };
    rows.push_back({fmt::format("empty regions in a burst, {} threads", threads),
                    in_burst(empty_regions, kEmpty), nullptr, kEmpty, false});
    rows.push_back({fmt::format("regions with a barrier in a burst, {} threads", threads),
                    in_burst(barrier_regions, kMet), nullptr, kMet, false});
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Row& row : rows) {
      const double time = row.measure() / static_cast<double>(row.regions);
      const double alone = row.serial == nullptr ? 1 : row.serial();
      row.times.push_back(time);
      row.serial_times.push_back(alone);
      row.ratios.push_back(time / alone);
    }
  }
  fmt::print(
      "Regions of {} chunks of {:.1f} us; medians of {} rounds, ranges of ratios\n"
      "{:<48} {:>11} {:>11} {:>5} {:>13} {:>12}\n",
      kChunks, serial(kMany) / (kMany * kChunks) * 1e6, kRounds, "", "on the pool", "serially",
      "ratio", "", "bar");
  for (const Row& row : rows) print(row);
}

}  // namespace
}  // namespace lathe

int main() {
  try {
    lathe::main();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
