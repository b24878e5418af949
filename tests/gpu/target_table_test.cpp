// SPDX-License-Identifier: MIT
// Names of targets: one target each, one device per card.
#include <gtest/gtest.h>

#include "targets/gpu/target.h"

namespace lathe::gpu {
namespace {

// `cards` per vendor; counts how often a driver is opened.
TargetTable table_of(int cuda, int hip, int* opened) {
  return TargetTable([=](Vendor vendor, int device, std::string* reason) {
    std::shared_ptr<Driver> driver;
    const int cards = vendor == Vendor::cuda ? cuda : vendor == Vendor::hip ? hip : 1;
    if (device < cards) {
      ++*opened;
      driver = make_host_driver();
    } else {
      *reason = fmt::format("{} has {} cards", to_string(vendor), cards);
    }
    return driver;
  });
}

TEST(GpuTargetTable, NamesOfOneCardShareItsDevice) {
  int opened = 0;
  TargetTable table = table_of(2, 1, &opened);
  const auto first = table.find("gpu", nullptr);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->device()->name(), "cuda:0");
  for (const char* name : {"cuda:0", "cuda", "gpu:0", "gpu"}) {
    const auto target = table.find(name, nullptr);
    ASSERT_NE(target, nullptr) << name;
    EXPECT_EQ(target->name(), name);
    EXPECT_EQ(target->device(), first->device()) << name;
  }
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(table.find("cuda:1", nullptr)->device(), table.find("gpu:1", nullptr)->device());
  EXPECT_EQ(table.find("hip", nullptr)->device()->name(), "hip:0");
  EXPECT_EQ(table.find("gpu:host", nullptr)->device()->name(), "gpu:host");
  EXPECT_EQ(opened, 4);
}

TEST(GpuTargetTable, WithoutTheFirstVendorItIsTheSeconds) {
  int opened = 0;
  TargetTable table = table_of(0, 1, &opened);
  ASSERT_NE(table.find("gpu", nullptr), nullptr);
  EXPECT_EQ(table.find("gpu", nullptr)->device(), table.find("hip:0", nullptr)->device());
  std::string reason;
  EXPECT_EQ(table.find("gpu:1", &reason), nullptr);
  EXPECT_EQ(reason, "cuda has 0 cards; hip has 1 cards");
  EXPECT_EQ(table.find("cuda", &reason), nullptr);
  EXPECT_EQ(reason, "cuda has 0 cards");
  EXPECT_EQ(table.find("sim", &reason), nullptr);
}

}  // namespace
}  // namespace lathe::gpu
