// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/simd/isa.h"

#include <gtest/gtest.h>

#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

TEST(Isa, NamesRoundTrip) {
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    EXPECT_EQ(isa_from_name(to_string(isa)), isa);
  }
  EXPECT_EQ(isa_from_name("avx1024"), std::nullopt);
}

TEST(Isa, TheBestIsTheHighestSupported) {
  const std::vector<Isa> host = test::host_isas();
  ASSERT_FALSE(host.empty());
  limit_isa(std::nullopt);
  EXPECT_EQ(best_isa(), host.back());
}

// One test per instruction set: those that this processor lacks are reported as skipped, by name.
class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void TearDown() override { limit_isa(std::nullopt); }
};

TEST_P(IsaTest, IsTheBestWhenItIsTheLimit) {
  if (!host_supports(GetParam())) {
    GTEST_SKIP() << "this processor has no " << to_string(GetParam()) << ": its kernels do not run";
  }
  limit_isa(GetParam());
  EXPECT_EQ(best_isa(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(, IsaTest, testing::ValuesIn(test::known_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace lathe::cpu
