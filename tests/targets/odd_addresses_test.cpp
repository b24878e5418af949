// SPDX-License-Identifier: MIT
// Weights of files that lie at odd addresses, as safetensors may have them: packed and
// quantised as others are.
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ops/support/weight_columns.h"
#include "targets/cpu/gemm.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kRows = 33, kColumns = 70;

// The elements of `type`, and the same ones at an odd address.
struct Weights {
  Tensor elements;
  Tensor odd;

  // Equal weights are packed once: each case has a `seed` of its own.
  Weights(ElementType type, int seed) : elements(type, {kRows, kColumns}) {
    std::vector<float> values(static_cast<size_t>(elements.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<float>(static_cast<int>(i) + 10'000 * seed));
    }
    convert(type, elements.data(), ElementType::f32, values.data(), elements.count());
    const auto size = static_cast<size_t>(elements.byte_size());
    auto bytes = std::make_shared<std::vector<char>>(size + 1);
    char* data = bytes->data() + 1;
    std::memcpy(data, elements.data(), size);
    odd = Tensor(type, elements.dims(), elements.strides(), data, std::move(bytes));
  }
};

// The packed columns, one after another, have the bytes of the columns of the matrix.
void expect_columns(const PackedMatrix& packed, const Tensor& matrix, bool transposed) {
  const auto size = static_cast<size_t>(matrix.byte_size() / matrix.count());
  ASSERT_EQ(packed.k(), transposed ? kColumns : kRows);
  ASSERT_EQ(packed.n(), transposed ? kRows : kColumns);
  std::vector<char> column(static_cast<size_t>(packed.k()) * size);
  for (int64_t n = 0; n < packed.n(); ++n) {
    packed.read_column(n, column.data());
    for (int64_t k = 0; k < packed.k(); ++k) {
      const int64_t at = transposed ? n * kColumns + k : k * kColumns + n;
      ASSERT_EQ(std::memcmp(column.data() + static_cast<size_t>(k) * size,
                            matrix.as<char>() + static_cast<size_t>(at) * size, size),
                0)
          << "row " << k << ", column " << n;
    }
  }
}

TEST(OddAddresses, WeightsArePackedInTheirType) {
  if (!best_isa()) GTEST_SKIP() << "this processor has none of the instruction sets";
  int seed = 0;
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    const Weights weights(ElementType::f32, ++seed);
    expect_columns(PackedMatrix(weights.odd, transposed, GemmType::f32, *best_isa()),
                   weights.elements, transposed);
  }
}

TEST(OddAddresses, WeightsOfSixteenBitsStayInSixteenBits) {
  if (!best_isa()) GTEST_SKIP() << "this processor has none of the instruction sets";
  int seed = 10;
  for (const ElementType type : {ElementType::bf16, ElementType::f16}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(to_string(type));
      SCOPED_TRACE(transposed);
      const Weights weights(type, ++seed);
      const PanelSource source{.parts = {&weights.odd}, .transposed = transposed};
      const PackedMatrix packed(source, *best_isa());
      EXPECT_EQ(packed.stored_type(), type);
      expect_columns(packed, weights.elements, transposed);
    }
  }
}

struct QuantisedColumns {
  std::vector<uint8_t> codes, scales;
  std::vector<float> zeros;
  friend bool operator==(const QuantisedColumns&, const QuantisedColumns&) = default;
};

QuantisedColumns quantised(const Tensor& floats, bool transposed, int bits) {
  const WeightColumns columns(floats.view(), transposed, 32, bits, false);
  const ColumnForm& form = columns.form();
  QuantisedColumns made;
  made.codes.resize(static_cast<size_t>(form.columns * form.code_bytes()));
  made.scales.resize(static_cast<size_t>(bytes_for(form.scale_type, form.columns * form.blocks)));
  made.zeros.resize(static_cast<size_t>(form.columns * form.blocks));
  columns.make(0, form.columns, made.codes.data(), made.scales.data(),
               form.has_zeros ? made.zeros.data() : nullptr);
  return made;
}

TEST(OddAddresses, WeightsAreQuantisedAsOthers) {
  int seed = 20;
  for (const ElementType type : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    for (const bool transposed : {false, true}) {
      for (const int bits : {4, 8}) {
        const Weights weights(type, ++seed);
        ASSERT_FALSE(weights.odd.is_aligned());
        EXPECT_TRUE(quantised(weights.odd, transposed, bits) ==
                    quantised(weights.elements, transposed, bits))
            << to_string(type) << ", transposed " << transposed << ", bits " << bits;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
#endif
