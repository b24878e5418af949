// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/common/transpose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/support/convolution_case.h"

namespace lathe::cpu::test {
namespace {

template <class T>
void expect_transposed(Random& random) {
  const int64_t rows = pick(random, 0, 40), columns = pick(random, 0, 40);
  const int64_t from_pitch = columns + pick(random, 0, 3), to_pitch = rows + pick(random, 0, 3);
  std::vector<T> from(static_cast<size_t>(rows * from_pitch));
  for (T& value : from) value = static_cast<T>(random());
  const T guard = 0x5A;
  std::vector<T> expected(static_cast<size_t>(columns * to_pitch + 8), guard);
  std::vector<T> to = expected;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      expected[static_cast<size_t>(c * to_pitch + r)] =
          from[static_cast<size_t>(r * from_pitch + c)];
  transpose_matrix(sizeof(T), from.data(), from_pitch, to.data(), to_pitch, rows, columns);
  EXPECT_EQ(to, expected) << rows << " x " << columns;
}

TEST(Transpose, HandlesAnySizeAndWritesNothingElse) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    expect_transposed<uint8_t>(random);
    expect_transposed<uint16_t>(random);
    expect_transposed<uint32_t>(random);
  }
}

}  // namespace
}  // namespace lathe::cpu::test
