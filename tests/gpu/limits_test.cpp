// SPDX-License-Identifier: MIT
// What `lathe perf` compares programs with on a card: the time of launches without that of waits.
#include "cli/limits.h"

#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

TEST(GpuLimits, AreOfLaunchesWithoutTheWaitsForThem) {
  constexpr double kWait = 55e-6;
  for (const double launch : {8e-6, 61e-6, 400e-6}) {
    const int64_t launches = launches_for(kWait + launch);
    EXPECT_GE(launches, 8);
    EXPECT_LE(launches, 64);
    const double all = kWait + static_cast<double>(launches) * launch;
    const double beside = seconds_beside(kWait + launch, all, launches);
    EXPECT_NEAR(beside, kWait, 1e-12);
    EXPECT_NEAR((all - beside) / static_cast<double>(launches), launch, 1e-12);
  }
}

TEST(GpuLimits, AreOfWholeRunsWhereTheseAreSlowOrVary) {
  EXPECT_EQ(launches_for(20e-3), 1);
  EXPECT_EQ(seconds_beside(20e-3, 20e-3, 1), 0);
  // Launches that were faster alone.
  EXPECT_EQ(seconds_beside(1e-3, 10e-3, 8), 0);
  // Many that took no longer than one.
  EXPECT_EQ(seconds_beside(1e-3, 1e-3, 8), 0.5e-3);
}

}  // namespace
}  // namespace lathe::cli
