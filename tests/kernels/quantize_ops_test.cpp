// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/quantize_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kMaxCount = 150;

struct Case {
  std::vector<float> x, scale, zero;
};

// Ties, values beyond the range, infinities and NaN; one scale per element.
Case make_case(int64_t count, float zero) {
  Case made;
  for (int64_t i = 0; i < count; ++i) {
    made.scale.push_back(0.25F * static_cast<float>(1 + i % 5));
    made.zero.push_back(zero + static_cast<float>(i % 3));
    made.x.push_back((static_cast<float>(i % 41) - 20.5F) * 3 * made.scale.back());
    if (i % 17 == 5) made.x.back() = 1e30F;
    if (i % 17 == 6) made.x.back() = -std::numeric_limits<float>::infinity();
    if (i % 17 == 7) made.x.back() = NAN;
  }
  return made;
}

template <class T>
T quantized(float x, float scale, float zero) {
  const double value = std::nearbyint(static_cast<double>(x / scale)) + static_cast<double>(zero);
  if (std::isnan(value)) return 0;
  return static_cast<T>(
      std::clamp<double>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

template <class T, class To, class From>
void check(To&& to, From&& from, float zero) {
  for (int64_t count = 1; count <= kMaxCount; ++count) {
    const Case c = make_case(count, zero);
    for (const bool each : {false, true}) {
      const QuantizeScale by{c.scale.data(), c.zero.data(), each};
      std::vector<T> y(c.x.size() + 1, T{77});
      to(c.x.data(), by, y.data(), count);
      std::vector<float> back(c.x.size() + 1, 77);
      from(y.data(), by, back.data(), count);
      for (size_t i = 0; i < c.x.size(); ++i) {
        const float scale = c.scale[each ? i : 0], own = c.zero[each ? i : 0];
        ASSERT_EQ(y[i], quantized<T>(c.x[i], scale, own)) << c.x[i] << " by " << scale;
        ASSERT_EQ(back[i], (static_cast<float>(y[i]) - own) * scale);
      }
      ASSERT_EQ(y.back(), T{77});
      ASSERT_EQ(back.back(), 77);
    }
  }
}

TEST(QuantizeOps, MatchTheirDefinitions) {
  for (const Isa isa : test::host_isas()) {
    const QuantizeOps& ops = quantize_ops(isa);
    check<uint8_t>(ops.to_u8, ops.from_u8, 100);
    check<int8_t>(ops.to_i8, ops.from_i8, -3);
  }
}

TEST(QuantizeOps, LookUpBytes) {
  std::array<uint8_t, 256> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(i * 167 + 13);
  for (const Isa isa : test::host_isas()) {
    for (const int64_t count : {1, 31, 32, 63, 64, 65, 300}) {
      std::vector<uint8_t> x(static_cast<size_t>(count)), y(x.size() + 1, 77);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(255 - i);
      quantize_ops(isa).look_up(x.data(), table.data(), y.data(), count);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], table[x[i]]) << i << " of " << count;
      ASSERT_EQ(y.back(), 77);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
