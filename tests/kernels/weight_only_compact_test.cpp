// SPDX-License-Identifier: MIT
// Weights in compact forms: beside f64, and the same bits for any number of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "tensor/float_formats.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kFactorElements = 256;
constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

WeightOnlyProblem problem_of(const CompactForm& form) {
  WeightOnlyProblem p;
  p.compact = form;
  p.levels = form.levels ? kLevels : nullptr;
  p.bits = plain_bits(form);
  p.block = form.block;
  p.scale_type = form.byte_scales ? ElementType::f32 : ElementType::f16;
  if (form.minimums) p.zero_type = ElementType::f32;
  return p;
}

// Columns in the packed form's parts, and their values.
class Columns {
 public:
  Columns(const WeightOnlyProblem& p, uint32_t seed)
      : p_(p), blocks_((p.k + p.block - 1) / p.block), width_(blocks_ * p.block) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(0.5F, 1.0F);
    const auto sized = [&](int64_t per_column) { return static_cast<size_t>(p.n * per_column); };
    codes_.resize(sized(width_));
    for (uint8_t& code : codes_) code = static_cast<uint8_t>(random() % (1U << p.compact->bits));
    bytes_.resize(sized(blocks_));
    for (int8_t& byte : bytes_) byte = static_cast<int8_t>(random() % 127 - 63);
    byte_minimums_.resize(sized(blocks_));
    for (int8_t& byte : byte_minimums_) byte = static_cast<int8_t>(random() % 64);
    const auto halves = [&](std::vector<uint16_t>& to, int64_t count, float scale) {
      to.resize(sized(count));
      for (uint16_t& half : to) half = float_to_half(scale * uniform(random));
    };
    halves(scales_, blocks_, 0.02F);
    halves(minimums_, blocks_, -0.2F);
    halves(factors_, width_ / kFactorElements, 0.001F);
    halves(minimum_factors_, width_ / kFactorElements, -0.003F);
    for (size_t block = 5; block < sized(blocks_); block += 7) bytes_[block] = scales_[block] = 0;
  }

  void make(int64_t first, int64_t count, const CompactColumns& to) const {
    copy(codes_, first, count, to.codes);
    if (p_.compact->byte_scales) {
      copy(bytes_, first, count, static_cast<int8_t*>(to.scales));
      copy(factors_, first, count, to.factors);
      if (p_.compact->minimums) {
        copy(byte_minimums_, first, count, static_cast<int8_t*>(to.minimums));
        copy(minimum_factors_, first, count, to.minimum_factors);
      }
      return;
    }
    copy(scales_, first, count, static_cast<uint16_t*>(to.scales));
    if (p_.compact->minimums) copy(minimums_, first, count, static_cast<uint16_t*>(to.minimums));
  }

  double scale(int64_t n, int64_t block) const {
    const auto at = static_cast<size_t>(n * blocks_ + block);
    return p_.compact->byte_scales ? static_cast<double>(factor(factors_, n, block)) * bytes_[at]
                                   : static_cast<double>(half_to_float(scales_[at]));
  }
  double minimum(int64_t n, int64_t block) const {
    const auto at = static_cast<size_t>(n * blocks_ + block);
    if (!p_.compact->minimums) return 0;
    return p_.compact->byte_scales
               ? static_cast<double>(factor(minimum_factors_, n, block)) * byte_minimums_[at]
               : static_cast<double>(half_to_float(minimums_[at]));
  }
  int level(int64_t n, int64_t k) const {
    const int code = codes_[static_cast<size_t>(n * width_ + k)];
    if (p_.compact->levels) return kLevels[code];
    return p_.compact->minimums ? code : code - (1 << (p_.compact->bits - 1));
  }

 private:
  template <class T>
  void copy(const std::vector<T>& from, int64_t first, int64_t count, T* to) const {
    const int64_t per_column = std::ssize(from) / p_.n;
    std::copy_n(from.data() + first * per_column, count * per_column, to);
  }
  float factor(const std::vector<uint16_t>& factors, int64_t n, int64_t block) const {
    const int64_t per_column = width_ / kFactorElements;
    return half_to_float(
        factors[static_cast<size_t>(n * per_column + block * p_.block / kFactorElements)]);
  }

  const WeightOnlyProblem& p_;
  int64_t blocks_, width_;
  std::vector<uint8_t> codes_;
  std::vector<int8_t> bytes_, byte_minimums_;
  std::vector<uint16_t> scales_, minimums_, factors_, minimum_factors_;
};

// a[k] times a column in f64, as int8 activations or as they are; `size` is the sum of magnitudes.
double product(const WeightOnlyProblem& p, const Columns& columns, const float* a, int64_t n,
               double& size) {
  double sum = 0;
  size = 0;
  for (int64_t begin = 0; begin < p.k; begin += p.block) {
    const int64_t end = std::min(p.k, begin + p.block), block = begin / p.block;
    float largest = 0;
    for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(a[k]));
    const float factor = largest > 0 ? 127 / largest : 0;
    for (int64_t k = begin; k < end; ++k) {
      const double x = p.compute == WeightOnlyCompute::int8
                           ? static_cast<double>(std::nearbyint(a[k] * factor)) * (largest / 127)
                           : static_cast<double>(a[k]);
      const double scaled = columns.level(n, k) * columns.scale(n, block);
      sum += x * (scaled + columns.minimum(n, block));
      size += std::abs(x) * (std::abs(scaled) + std::abs(columns.minimum(n, block)));
    }
  }
  return sum;
}

class Packed {
 public:
  Packed(const WeightOnlyProblem& p, const Columns& columns)
      : layout(weight_only_layout(p)), storage_(static_cast<size_t>(layout.bytes) + 64) {
    pack_compact(
        p, layout,
        [&](int64_t first, int64_t count, const CompactColumns& to) {
          columns.make(first, count, to);
        },
        data(), nullptr);
  }
  uint8_t* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }
  WeightOnlyLayout layout;

 private:
  std::vector<uint8_t> storage_;
};

std::vector<float> run(const WeightOnlyProblem& p, Packed& packed, const std::vector<float>& a,
                       int64_t m, Isa isa, ThreadPool* pool = nullptr,
                       const float* bias = nullptr) {
  const int64_t n = p.swiglu ? p.n / 2 : p.n;
  std::vector<float> y(static_cast<size_t>(m * n));
  const int64_t bytes = weight_only_workspace(p, packed.layout, m);
  std::vector<std::byte> memory(static_cast<size_t>(bytes) + 64);
  const auto at = reinterpret_cast<uintptr_t>(memory.data());
  WeightOnlyCall call;
  call.a = a.data();
  call.a_stride = p.k;
  call.m = m;
  call.y = y.data();
  call.y_stride = n;
  call.bias = bias;
  call.workspace = memory.data() + (64 - at % 64) % 64;
  run_weight_only(p, packed.layout, packed.data(), call, isa, pool);
  return y;
}

void expect_right(const WeightOnlyProblem& p, uint32_t seed) {
  const Columns columns(p, seed);
  Packed packed(p, columns);
  constexpr int64_t kRows = 21;
  std::mt19937 random(seed + 1);
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<size_t>(kRows * p.k));
  for (float& x : a) x = normal(random);
  std::vector<float> first;
  for (const Isa isa : test::host_isas()) {
    const std::vector<float> y = run(p, packed, a, kRows, isa);
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << weight_only_packing_id(p) << ", " << to_string(isa);
    for (const int64_t m : {1, 2, 3, 7, 8}) {
      const std::vector<float> few = run(p, packed, a, m, isa);
      EXPECT_TRUE(std::equal(few.begin(), few.end(), y.begin()))
          << weight_only_packing_id(p) << ", m = " << m << ", " << to_string(isa);
    }
  }
  for (int64_t i = 0; i < kRows * p.n; ++i) {
    double size = 0;
    const double expected = product(p, columns, a.data() + i / p.n * p.k, i % p.n, size);
    ASSERT_NEAR(first[static_cast<size_t>(i)], expected, 2e-6 * size + 1e-6)
        << weight_only_packing_id(p) << ", element " << i;
  }
}

TEST(WeightOnlyCompact, MultipliesAllForms) {
  uint32_t seed = 0;
  for (const CompactForm& form : kCompactForms) {
    for (const auto compute : {WeightOnlyCompute::int8, WeightOnlyCompute::f32}) {
      for (const int64_t cells : {1, 3, 5}) {
        WeightOnlyProblem p = problem_of(form);
        p.compute = compute;
        p.k = cells * (form.byte_scales ? 256 : 32);
        p.n = cells == 1 ? 5 : 53;
        ASSERT_EQ(weight_only_refusal(p), "");
        expect_right(p, seed++);
      }
    }
  }
}

// Matrices of many tasks, and of fewer panels than threads.
// Rows and columns as of the GEMM alone, for any number of rows.
TEST(WeightOnlyCompact, EndsWithSwiglu) {
  constexpr float kAlpha = 1.25F;
  constexpr int64_t kRows = 70;
  ThreadPool pool(3);
  uint32_t seed = 300;
  for (const CompactForm& form : kCompactForms) {
    for (const auto compute : {WeightOnlyCompute::int8, WeightOnlyCompute::f32}) {
      WeightOnlyProblem p = problem_of(form);
      p.n = 96;
      p.k = 512;
      p.compute = compute;
      ++seed;
      const Columns columns(p, seed);
      Packed packed(p, columns);
      std::mt19937 random(seed);
      std::normal_distribution<float> normal;
      std::vector<float> a(static_cast<size_t>(kRows * p.k)), bias(static_cast<size_t>(p.n));
      for (float& x : a) x = normal(random);
      for (float& x : bias) x = normal(random);
      for (const float* added : {static_cast<const float*>(nullptr), std::as_const(bias).data()}) {
        for (const Isa isa : test::host_isas()) {
          const std::vector<float> product = run(p, packed, a, kRows, isa, nullptr, added);
          WeightOnlyProblem gated = p;
          gated.swiglu = kAlpha;
          for (const int64_t m : {int64_t{1}, int64_t{3}, int64_t{8}, int64_t{21}, kRows}) {
            const std::vector<float> y = run(gated, packed, a, m, isa, &pool, added);
            const int64_t half = p.n / 2;
            for (int64_t i = 0; i < m * half; ++i) {
              const float* const at = product.data() + i / half * p.n + i % half;
              const double x = at[0];
              const double expected = x / (1 + std::exp(-kAlpha * x)) * at[half];
              ASSERT_NEAR(y[static_cast<size_t>(i)], expected, 1e-5 * std::abs(expected) + 1e-6)
                  << weight_only_packing_id(p) << ", m = " << m << ", element " << i << ", "
                  << to_string(isa);
            }
          }
        }
      }
    }
  }
}

TEST(WeightOnlyCompact, HasTheSameBitsOnManyThreads) {
  ThreadPool pool(5);
  uint32_t seed = 100;
  for (const CompactForm& form : kCompactForms) {
    for (const auto compute : {WeightOnlyCompute::int8, WeightOnlyCompute::f32}) {
      for (const int64_t n : {40, 2100}) {
        WeightOnlyProblem p = problem_of(form);
        p.compute = compute;
        p.k = 256;
        p.n = n;
        const Columns columns(p, seed);
        Packed packed(p, columns);
        constexpr int64_t kRows = 37;
        std::mt19937 random(seed++);
        std::normal_distribution<float> normal;
        std::vector<float> a(static_cast<size_t>(kRows * p.k));
        for (float& x : a) x = normal(random);
        const Isa isa = test::host_isas().back();
        for (const int64_t m : {int64_t{1}, int64_t{2}, kRows}) {
          EXPECT_EQ(run(p, packed, a, m, isa, &pool), run(p, packed, a, m, isa))
              << weight_only_packing_id(p) << ", m = " << m;
        }
      }
    }
  }
}

// Infinities have the signs of their weights; NaN stays in its row.
TEST(WeightOnlyCompact, MultipliesInfinities) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  uint32_t seed = 200;
  for (const CompactForm& form : kCompactForms) {
    WeightOnlyProblem p = problem_of(form);
    p.k = 512;
    p.n = 40;
    const Columns columns(p, seed++);
    Packed packed(p, columns);
    const auto k = static_cast<size_t>(p.k);
    for (const int64_t m : {3, 9}) {
      std::vector<float> finite(static_cast<size_t>(m) * k, 0.5F);
      std::vector<float> a = finite;
      a[3] = a[k - 1] = kInfinity;
      a[k + 100] = std::numeric_limits<float>::quiet_NaN();
      a[k + 99] = a[k + 101] = kInfinity;
      std::fill_n(a.begin() + static_cast<int64_t>(2 * k), k,
                  std::numeric_limits<float>::quiet_NaN());
      for (const Isa isa : test::host_isas()) {
        const std::vector<float> y = run(p, packed, a, m, isa);
        const std::vector<float> expected = run(p, packed, finite, m, isa);
        for (int64_t n = 0; n < p.n; ++n) {
          double sum = 0;
          for (const int64_t at : {int64_t{3}, p.k - 1}) {
            const double weight = columns.level(n, at) * columns.scale(n, at / p.block) +
                                  columns.minimum(n, at / p.block);
            sum += static_cast<double>(kInfinity) * weight;
          }
          const float first = y[static_cast<size_t>(n)];
          if (std::isnan(sum)) {
            EXPECT_TRUE(std::isnan(first)) << first;
          } else {
            EXPECT_EQ(first, static_cast<float>(sum)) << weight_only_packing_id(p) << ", " << n;
          }
          EXPECT_TRUE(std::isnan(y[static_cast<size_t>(p.n + n)]));
          EXPECT_TRUE(std::isnan(y[static_cast<size_t>(2 * p.n + n)]));
          for (int64_t row = 3; row < m; ++row) {
            const auto place = static_cast<size_t>(row * p.n + n);
            EXPECT_EQ(y[place], expected[place]);
          }
        }
      }
    }
  }
}

TEST(WeightOnlyCompact, RefusesOtherForms) {
  WeightOnlyProblem p = problem_of(kCompactForms[5]);
  p.k = 512;
  p.n = 16;
  EXPECT_EQ(weight_only_refusal(p), "");
  p.k = 128;
  EXPECT_EQ(weight_only_refusal(p), "k = 128, expected a multiple of 256 for byte scales");
  p.k = 512;
  p.compact->bits = 7;
  EXPECT_EQ(weight_only_refusal(p), "a compact form of 7 bits");
}

// Q4_1: 20 bytes per 32 elements; Q4_K, Q5_K, Q6_K, Q3_K: 144, 176, 210, 110 per 256.
TEST(WeightOnlyCompact, TakesLittleMoreMemoryThanFiles) {
  const auto bytes = [](size_t form, int64_t elements) {
    WeightOnlyProblem p = problem_of(kCompactForms[form]);
    p.k = 2048;
    p.n = 1024;
    return static_cast<double>(weight_only_layout(p).bytes * elements) /
           static_cast<double>(p.k * p.n);
  };
  EXPECT_EQ(bytes(0, 32), 20);
  EXPECT_EQ(bytes(5, 256), 148);
  EXPECT_EQ(bytes(6, 256), 180);
  EXPECT_EQ(bytes(7, 256), 210);
  EXPECT_EQ(bytes(4, 256), 114);
}

}  // namespace
}  // namespace lathe::cpu
