// SPDX-License-Identifier: MIT
// The matrices of experts are stacked only if all have the sizes of the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "import/checkpoint/packed_experts.h"

namespace lathe::checkpoint {
namespace {

class Codes final : public QuantisedTensor {
 public:
  Codes(int64_t rows, int64_t columns, uint8_t code)
      : rows_(rows), columns_(columns), code_(code) {}
  std::optional<PackedMatrix> packed() const override {
    PackedMatrix m;
    m.rows = rows_;
    m.columns = columns_;
    m.bits = 8;
    m.block = columns_;
    m.codes = Tensor(ElementType::u8, {rows_, columns_});
    std::memset(m.codes.data(), code_, static_cast<size_t>(m.codes.byte_size()));
    m.scales = Tensor(ElementType::f32, {rows_, 1});
    std::fill_n(m.scales.as<float>(), rows_, 1.0F);
    return m;
  }
  Tensor dequantised() const override { return dequantise(*packed()); }
  std::string held_as() const override { return "8-bit codes"; }

 private:
  int64_t rows_;
  int64_t columns_;
  uint8_t code_;
};

StoredTensor stored(const Dims& dims, uint8_t code = 0) {
  const int64_t columns = dims.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  StoredTensor out;
  out.dims = dims;
  out.quantised = std::make_shared<Codes>(rows, columns, code);
  return out;
}

TEST(PackedExperts, StacksPartsOfEveryExpert) {
  const StoredTensor gate = stored({4, 32}, 1), up = stored({4, 32}, 2);
  const StoredTensor* const parts[] = {&gate, &up, &up, &gate};
  const std::optional<PackedExperts> packed = pack_experts(parts, 2);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->codes.dims(), Dims({2, 8, 32}));
  EXPECT_EQ(packed->scales.dims(), Dims({2, 8, 1}));
  const auto* codes = packed->codes.as<uint8_t>();
  for (const int64_t part : {0, 1, 2, 3}) {
    EXPECT_EQ(codes[part * 4 * 32], part == 0 || part == 3 ? 1 : 2) << part;
  }
}

// A row has its own number as code; expert 1 of `second` reads its inputs from last to first.
TEST(PackedExperts, SortsRowsByTheInputsOfTheNextMatrix) {
  for (const bool alternating : {false, true}) {
    PackedExperts first, second;
    first.codes = Tensor(ElementType::u8, {2, 6, 2});
    first.scales = Tensor(ElementType::f32, {2, 6, 1});
    for (int64_t i = 0; i < 24; ++i) first.codes.as<uint8_t>()[i] = static_cast<uint8_t>(i / 2);
    for (int64_t i = 0; i < 12; ++i) first.scales.as<float>()[i] = static_cast<float>(i);
    second.order = Tensor(ElementType::i32, {2, 3});
    std::ranges::copy(std::array{0, 1, 2, 2, 1, 0}, second.order.as<int32_t>());
    sort_rows(first, second, alternating);
    const std::array<int, 12> expected = alternating
                                             ? std::array{0, 1, 2, 3, 4, 5, 10, 11, 8, 9, 6, 7}
                                             : std::array{0, 1, 2, 3, 4, 5, 8, 7, 6, 11, 10, 9};
    for (size_t row = 0; row < 12; ++row) {
      EXPECT_EQ(first.codes.as<uint8_t>()[2 * row + 1], expected[row]) << row;
      EXPECT_EQ(first.scales.as<float>()[row], static_cast<float>(expected[row])) << row;
    }
    EXPECT_EQ(second.order.data(), nullptr);
  }
}

TEST(PackedExperts, LeavesPartsOfOtherSizes) {
  const StoredTensor four = stored({4, 32}), two = stored({2, 32}), six = stored({6, 32});
  const StoredTensor* const unequal[] = {&two, &six, &four, &four};
  EXPECT_FALSE(pack_experts(unequal, 2));
  const StoredTensor narrow = stored({4, 16});
  const StoredTensor* const columns[] = {&four, &narrow};
  EXPECT_FALSE(pack_experts(columns, 2));
}

TEST(PackedExperts, LeavesStacksOfOtherNumbersOfExperts) {
  const StoredTensor all = stored({4, 2, 32});
  const StoredTensor* const parts[] = {&all};
  EXPECT_TRUE(pack_experts(parts, 4));
  for (const int64_t experts : {1, 2, 8}) EXPECT_FALSE(pack_experts(parts, experts)) << experts;
}

}  // namespace
}  // namespace lathe::checkpoint
