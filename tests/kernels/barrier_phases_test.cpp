// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/common/barrier_phases.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace lathe::cpu::test {
namespace {

// Counts the runs of each part, and the parts that started before the previous phase ended.
class Record {
 public:
  Record(int phases, int parts) : parts_(parts), runs_(static_cast<size_t>(phases * parts)) {}

  void add(int phase, int part) {
    const int before = ended_.load();
    if (before < phase * parts_ || before >= (phase + 1) * parts_) ++early_;
    ++runs_[static_cast<size_t>(phase * parts_ + part)];
    ++ended_;
  }
  void expect_each_once() const {
    EXPECT_EQ(early_, 0);
    for (const auto& runs : runs_) ASSERT_EQ(runs, 1);
  }

 private:
  const int parts_;
  std::vector<std::atomic<int>> runs_;
  std::atomic<int> ended_{0}, early_{0};
};

TEST(Phases, RunEachPartOnceAfterThePreviousPhase) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int parts = 1; parts <= 6; ++parts) {
      constexpr int kPhases = 300;
      Phases phases(kPhases, parts);
      Record record(kPhases, parts);
      parallel_for(&pool, threads, 1, [&](int64_t begin, int64_t) {
        phases.work(static_cast<int>(begin), [&](int phase, int part) { record.add(phase, part); });
      });
      record.expect_each_once();
    }
  }
}

TEST(Phases, CompleteWithoutAbsentThreads) {
  constexpr int kPhases = 20, kParts = 3;
  Phases phases(kPhases, kParts);
  Record record(kPhases, kParts);
  phases.work(2, [&](int phase, int part) { record.add(phase, part); });
  record.expect_each_once();
  phases.work(0, [&](int, int) { FAIL(); });  // all phases have ended
}

TEST(Phases, SleepDuringALongPart) {
  constexpr int kPhases = 5;
  ThreadPool pool(2);
  Phases phases(kPhases, 2);
  Record record(kPhases, 2);
  parallel_for(&pool, 2, 1, [&](int64_t begin, int64_t) {
    phases.work(static_cast<int>(begin), [&](int phase, int part) {
      if (phase % 2 == part) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      record.add(phase, part);
    });
  });
  record.expect_each_once();
}

}  // namespace
}  // namespace lathe::cpu::test
