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

TEST(Isa, TheBestIsTheHighestSupportedWithinTheLimit) {
  const std::vector<Isa> host = test::host_isas();
  ASSERT_FALSE(host.empty());
  limit_isa(std::nullopt);
  EXPECT_EQ(best_isa(), host.back());
  for (const Isa isa : host) {
    limit_isa(isa);
    EXPECT_EQ(best_isa(), isa);
  }
  limit_isa(std::nullopt);
}

}  // namespace
}  // namespace lathe::cpu
