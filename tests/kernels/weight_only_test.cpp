// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tensor/convert.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

using test::host_isas;
using Bytes = std::vector<uint8_t>;
using Compute = WeightOnlyCompute;

// 64-byte aligned memory with guard bytes on both sides.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : memory_(static_cast<size_t>(bytes) + 3 * 64, 0xA5) {
    const auto start = reinterpret_cast<uintptr_t>(memory_.data());
    at_ = memory_.data() + 64 + (64 - start % 64) % 64;
    bytes_ = bytes;
  }
  uint8_t* data() const { return at_; }
  bool intact() const {
    const auto pattern = [](uint8_t x) { return x == 0xA5; };
    return std::all_of(memory_.data(), static_cast<const uint8_t*>(at_), pattern) &&
           std::all_of(static_cast<const uint8_t*>(at_) + bytes_, memory_.data() + memory_.size(),
                       pattern);
  }

 private:
  Bytes memory_;
  uint8_t* at_;
  int64_t bytes_;
};

struct Case {
  WeightOnlyProblem problem;
  int64_t m = 1;
  bool bias = false;
  uint32_t seed = 0;
  // Derived from the seed:
  Bytes codes, scales, zeros, a;
  std::vector<int32_t> groups;
  std::vector<float> bias_values;

  int64_t blocks() const { return (problem.k + problem.block - 1) / problem.block; }
  WeightOnlySource source() const {
    return {codes.data(), scales.data(), problem.zero_type ? zeros.data() : nullptr, groups};
  }
};

Bytes random_floats(std::mt19937& random, ElementType type, int64_t count, float low, float high) {
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = uniform(random);
  Bytes out(static_cast<size_t>(bytes_for(type, count)));
  convert(type, out.data(), ElementType::f32, values.data(), count);
  return out;
}

Bytes random_bytes(std::mt19937& random, int64_t count) {
  Bytes out(static_cast<size_t>(count));
  for (uint8_t& x : out) x = static_cast<uint8_t>(random());
  return out;
}

void fill(Case& c) {
  const WeightOnlyProblem& p = c.problem;
  std::mt19937 random(c.seed);
  c.codes = random_bytes(random, p.n * c.blocks() * p.block * p.bits / 8);
  c.scales = random_floats(random, p.scale_type, p.n * c.blocks(), -0.02F, 0.05F);
  if (p.zero_type == ElementType::u8) {
    const int64_t pitch = (c.blocks() * p.bits + 7) / 8;
    c.zeros = random_bytes(random, p.n * pitch);
    // Files store zeros in the unused bits after a column's last zero point.
    if (const int64_t used = c.blocks() * p.bits % 8; used != 0) {
      for (int64_t n = 0; n < p.n; ++n) {
        c.zeros[static_cast<size_t>((n + 1) * pitch - 1)] &= static_cast<uint8_t>((1 << used) - 1);
      }
    }
  } else if (p.zero_type) {
    c.zeros =
        random_floats(random, *p.zero_type, p.n * c.blocks(), 0, static_cast<float>(1 << p.bits));
  }
  if (p.grouped) {
    for (int64_t i = 0; i < p.k; ++i) {
      c.groups.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(c.blocks())));
    }
  }
  c.a = random_floats(random, p.a_type, c.m * p.k, -3, 3);
  const int64_t zero_block = static_cast<int64_t>(random() % static_cast<uint32_t>(c.blocks()));
  if (random() % 4 == 0) {  // a zero block in the last row
    for (int64_t i = zero_block * p.block; i < std::min(p.k, (zero_block + 1) * p.block); ++i) {
      store_double(p.a_type, c.a.data(), (c.m - 1) * p.k + i, 0);
    }
  }
  if (c.bias) {
    for (int64_t n = 0; n < p.n; ++n)
      c.bias_values.push_back(static_cast<float>(random() % 64) / 8);
  }
}

std::string describe(const Case& c, Isa isa) {
  const WeightOnlyProblem& p = c.problem;
  return fmt::format(
      "{}: m {} k {} n {} bits {} block {} scales {} zeros {} grouped {} a {} y {} compute {} bias "
      "{} "
      "seed {}",
      to_string(isa), c.m, p.k, p.n, p.bits, p.block, to_string(p.scale_type),
      p.zero_type ? to_string(*p.zero_type) : "none", p.grouped, to_string(p.a_type),
      to_string(p.y_type), static_cast<int>(p.compute), c.bias, c.seed);
}

int bits_at(const uint8_t* from, int64_t index, int bits) {
  int out = 0;
  for (int i = 0; i < bits; ++i) {
    const int64_t bit = index * bits + i;
    out |= (from[bit / 8] >> bit % 8 & 1) << i;
  }
  return out;
}

// Naive reference over the decoded file.
class NaiveGemm {
 public:
  explicit NaiveGemm(const Case& c) : p_(c.problem), blocks_(c.blocks()) {
    const int64_t column = blocks_ * p_.block * p_.bits / 8;
    for (int64_t n = 0; n < p_.n; ++n) {
      for (int64_t k = 0; k < p_.k; ++k) {
        codes_.push_back(static_cast<float>(bits_at(c.codes.data() + n * column, k, p_.bits)));
      }
      for (int64_t b = 0; b < blocks_; ++b) {
        const int64_t at = n * blocks_ + b;
        scales_.push_back(static_cast<float>(load_double(p_.scale_type, c.scales.data(), at)));
        zeros_.push_back(zero(c, n, b));
      }
    }
    for (int64_t i = 0; i < c.m * p_.k; ++i) {
      a_.push_back(static_cast<float>(load_double(p_.a_type, c.a.data(), i)));
    }
    if (p_.compute == Compute::bf16) {
      for (float& x : a_) {
        uint16_t rounded;
        convert(ElementType::bf16, &rounded, ElementType::f32, &x, 1);
        convert(ElementType::f32, &x, ElementType::bf16, &rounded, 1);
      }
    }
    for (int64_t k = 0; k < p_.k; ++k) {
      block_of_.push_back(p_.grouped ? c.groups[static_cast<size_t>(k)] : k / p_.block);
    }
  }

  float int8(int64_t m, int64_t n) const {
    float sum = 0;
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t begin = b * p_.block, end = std::min(p_.k, begin + p_.block);
      float largest = 0;
      for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::fabs(a_[at(m, k)]));
      if (largest == 0) continue;
      const float factor = 127 / largest;
      const auto block = static_cast<size_t>(n * blocks_ + b);
      const bool floats = p_.zero_type && *p_.zero_type != ElementType::u8;
      double exact = 0;  // below 2^53
      float codes = 0;
      for (int64_t k = begin; k < end; ++k) {
        const float code = std::nearbyint(a_[at(m, k)] * factor);
        exact += code * (codes_[at(n, k)] - (floats ? 0 : zeros_[block]));
        codes += code;
      }
      auto value = static_cast<float>(exact);
      if (floats) value = std::fma(-codes, zeros_[block], value);
      sum = std::fma(value, largest / 127 * scales_[block], sum);
    }
    return sum;
  }
  // Adds the magnitudes of the terms to `magnitude`; rounding errors are proportional to it.
  double real(int64_t m, int64_t n, double& magnitude) const {
    double sum = 0;
    for (int64_t k = 0; k < p_.k; ++k) {
      const auto block = static_cast<size_t>(n * blocks_ + block_of_[static_cast<size_t>(k)]);
      const double weight = static_cast<double>(codes_[at(n, k)] - zeros_[block]) * scales_[block];
      const double term = a_[at(m, k)] * weight;
      sum += term;
      magnitude += std::fabs(term);
    }
    return sum;
  }

 private:
  size_t at(int64_t row, int64_t k) const { return static_cast<size_t>(row * p_.k + k); }
  static float zero(const Case& c, int64_t n, int64_t b) {
    const WeightOnlyProblem& p = c.problem;
    if (!p.zero_type) return static_cast<float>(1 << (p.bits - 1));
    if (*p.zero_type == ElementType::u8) {
      const int64_t pitch = (c.blocks() * p.bits + 7) / 8;
      return static_cast<float>(bits_at(c.zeros.data() + n * pitch, b, p.bits));
    }
    return static_cast<float>(load_double(*p.zero_type, c.zeros.data(), n * c.blocks() + b));
  }

  const WeightOnlyProblem& p_;
  int64_t blocks_;
  std::vector<float> codes_, scales_, zeros_, a_;
  std::vector<int64_t> block_of_;
};

// Naive results, and their tolerances (int8: 0).
struct Expected {
  explicit Expected(const Case& c) {
    const WeightOnlyProblem& p = c.problem;
    const NaiveGemm naive(c);
    for (int64_t m = 0; m < c.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        const float bias = c.bias ? c.bias_values[static_cast<size_t>(n)] : 0;
        if (p.compute == Compute::int8) {
          float expected = naive.int8(m, n) + bias;
          uint32_t bits = 0;
          convert(p.y_type, &bits, ElementType::f32, &expected, 1);
          convert(ElementType::f32, &expected, p.y_type, &bits, 1);
          values.push_back(expected);
          tolerances.push_back(0);
          continue;
        }
        double magnitude = 0;
        values.push_back(naive.real(m, n, magnitude) + bias);
        const double step = p.y_type == ElementType::f32   ? 0
                            : p.y_type == ElementType::f16 ? 1e-3
                                                           : 8e-3;
        tolerances.push_back(3e-6 * magnitude + step * std::fabs(values.back()) + 1e-6);
      }
    }
  }
  std::vector<double> values, tolerances;
};

struct Packed {
  explicit Packed(const Case& c)
      : layout(weight_only_layout(c.problem, c.groups)), memory(layout.bytes) {
    pack_weight_only(c.problem, layout, c.source(), memory.data(), nullptr);
  }
  WeightOnlyLayout layout;
  Guarded memory;
};

// Computes `rows` rows of y, in f32, and checks that memory around y does not change.
std::vector<float> run(const Case& c, const Packed& packed, int64_t row, int64_t rows, Isa isa,
                       ThreadPool* pool) {
  const WeightOnlyProblem& p = c.problem;
  const int64_t stride = p.n + 3;
  const int64_t size = bytes_for(p.y_type, 1);
  Bytes y(static_cast<size_t>(rows * stride * size), 0xC3);
  Guarded workspace(weight_only_workspace(p, packed.layout, rows));
  WeightOnlyCall call;
  call.a = c.a.data() + row * p.k * bytes_for(p.a_type, 1);
  call.a_stride = p.k;
  call.m = rows;
  call.y = y.data();
  call.y_stride = stride;
  call.bias = c.bias ? c.bias_values.data() : nullptr;
  call.workspace = workspace.data();
  run_weight_only(p, packed.layout, packed.memory.data(), call, isa, pool);
  EXPECT_TRUE(packed.memory.intact() && workspace.intact()) << describe(c, isa);
  std::vector<float> out(static_cast<size_t>(rows * p.n));
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t i = 0; i < 3 * size; ++i) {
      EXPECT_EQ(y[static_cast<size_t>((m * stride + p.n) * size + i)], 0xC3) << describe(c, isa);
    }
    convert(ElementType::f32, out.data() + m * p.n, p.y_type, y.data() + m * stride * size, p.n);
  }
  return out;
}

void expect_right(const Case& c, const Expected& expected, const Packed& packed, Isa isa) {
  const std::vector<float> y = run(c, packed, 0, c.m, isa, nullptr);
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_LE(std::fabs(y[i] - expected.values[i]), expected.tolerances[i])
        << describe(c, isa) << " element " << i << ": " << y[i] << ", expected "
        << expected.values[i];
  }
}

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

constexpr uint32_t kSmallSeeds = 1000000000;  // larger seeds are larger cases

Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  Case c;
  c.seed = seed;
  WeightOnlyProblem& p = c.problem;
  const auto type = [&] {
    return pick(random, {ElementType::f32, ElementType::f16, ElementType::bf16});
  };
  p.bits = pick(random, {2, 3, 4, 8});
  p.block = pick<int64_t>(random, {16, 32, 64, 128, 256});
  const bool small = seed < kSmallSeeds && seed % 19 != 0;
  p.k = 1 + static_cast<int64_t>(random() % (small ? 300 : 700));
  p.n = 1 + static_cast<int64_t>(random() % (small ? 40 : 90));
  p.compute = pick(random, {Compute::int8, Compute::int8, Compute::bf16, Compute::f32});
  p.scale_type = type();
  p.a_type = random() % 2 == 0 ? ElementType::f32 : type();
  p.y_type = random() % 2 == 0 ? ElementType::f32 : type();
  if (random() % 2 == 0) p.zero_type = ElementType::u8;
  if (random() % 4 == 0) p.zero_type = type();
  if (p.compute != Compute::int8) p.grouped = random() % 4 == 0;
  c.m = small || random() % 2 == 0 ? 1 + static_cast<int64_t>(random() % 9)
                                   : 1 + static_cast<int64_t>(random() % 40);
  c.bias = random() % 3 == 0;
  fill(c);
  return c;
}

TEST(WeightOnly, RandomProblemsMatchANaiveLoop) {
  for (int64_t seed = 0; seed < test::cases(test::kUsualCases); ++seed) {
    const Case c = random_case(static_cast<uint32_t>(seed));
    ASSERT_EQ(weight_only_refusal(c.problem), "");
    const Packed packed(c);
    expect_right(c, Expected(c), packed, test::isa_for_case(seed));
    if (HasFailure()) return;
  }
}

TEST(WeightOnly, RowsHaveTheSameBitsForAnyMAndThreadCount) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Case c = random_case(kSmallSeeds + seed);
    c = Case{c.problem, 512, seed % 2 == 0, seed, {}, {}, {}, {}, {}, {}};
    c.problem.k = 130 + seed * 40;
    c.problem.n = 40;
    c.problem.bits = std::array{2, 3, 4, 8}[seed % 4];
    fill(c);
    const Packed packed(c);
    for (const Isa isa : host_isas()) {
      const std::vector<float> whole = run(c, packed, 0, c.m, isa, nullptr);
      for (const int threads : {2, 3}) {
        ThreadPool pool(threads);
        ASSERT_EQ(whole, run(c, packed, 0, c.m, isa, &pool)) << describe(c, isa);
      }
      for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17}) {
        const int64_t row = static_cast<int64_t>(seed) * 7;
        const std::vector<float> some = run(c, packed, row, m, isa, nullptr);
        ASSERT_TRUE(std::equal(some.begin(), some.end(), whole.begin() + row * c.problem.n))
            << describe(c, isa) << " rows " << m;
      }
    }
  }
}

// M of several tasks, an odd number of panels, and a K whose last chunk is shorter.
TEST(WeightOnly, LargeMAndKMatchANaiveLoop) {
  for (const int64_t block : {16, 32, 128}) {
    Case c;
    c.problem.k = 1120 + block;
    c.problem.n = 35;
    c.problem.block = block;
    c.problem.compute = Compute::int8;
    if (block == 32) c.problem.zero_type = ElementType::u8;
    c.m = 525;
    c.bias = true;
    c.seed = static_cast<uint32_t>(block);
    fill(c);
    const Packed packed(c);
    const Expected expected(c);
    for (const Isa isa : host_isas()) expect_right(c, expected, packed, isa);
  }
}

// No task is empty for any M and N.
TEST(WeightOnly, AnyMAndNSplitIntoTasks) {
  for (const int64_t n : {17, 130, 256, 288, 700}) {
    Case c;
    c.problem.k = c.problem.block = 16;
    c.problem.n = n;
    c.problem.compute = Compute::int8;
    c.m = 1100;
    fill(c);
    const Packed packed(c);
    for (const Isa isa : host_isas()) {
      const std::vector<float> whole = run(c, packed, 0, c.m, isa, nullptr);
      for (const int64_t m : {65, 95, 200, 300, 416, 592, 715, 720, 868, 880, 1050, 1056}) {
        const std::vector<float> some = run(c, packed, 0, m, isa, nullptr);
        ASSERT_TRUE(std::equal(some.begin(), some.end(), whole.begin())) << m << " x " << n;
      }
    }
  }
}

// Each element as of the GEMM alone, by all kernels.
TEST(WeightOnly, EndsWithSwiglu) {
  constexpr float kAlpha = 1.25F;
  for (const int bits : {2, 3, 4, 8}) {
    for (const Compute compute : {Compute::int8, Compute::bf16, Compute::f32}) {
      Case c;
      c.seed = static_cast<uint32_t>(bits);
      c.problem.bits = bits;
      c.problem.compute = compute;
      c.problem.k = 160;
      c.problem.n = 96;
      c.m = 70;
      c.bias = bits != 4;
      fill(c);
      const Packed packed(c);
      for (const Isa isa : test::host_isas()) {
        c.problem.swiglu.reset();
        const std::vector<float> product = run(c, packed, 0, c.m, isa, nullptr);
        c.problem.swiglu = kAlpha;
        for (const int64_t m : {1, 5, 17, 70}) {
          const std::vector<float> y = run(c, packed, 0, m, isa, nullptr);
          const int64_t n = c.problem.n, half = n / 2;
          for (int64_t i = 0; i < m * half; ++i) {
            const int64_t at = i / half * n + i % half;
            const double x = product[static_cast<size_t>(at)];
            const double expected =
                x / (1 + std::exp(-kAlpha * x)) * product[static_cast<size_t>(at + half)];
            ASSERT_NEAR(y[static_cast<size_t>(at)], expected, 1e-5 * std::abs(expected) + 1e-6)
                << describe(c, isa) << ", m = " << m << ", element " << i;
          }
        }
      }
    }
  }
}

TEST(WeightOnly, ExtremeCodesMultiplyExactly) {
  for (const int bits : {2, 3, 4, 8}) {
    for (const int64_t block : {16, 32, 64, 128, 256}) {
      Case c;
      c.problem.k = 300;
      c.problem.n = 17;
      c.problem.bits = bits;
      c.problem.block = block;
      c.problem.compute = Compute::int8;
      c.problem.zero_type = ElementType::u8;
      c.m = 17;
      fill(c);
      std::fill(c.codes.begin(), c.codes.end(), uint8_t{0xFF});
      std::fill(c.zeros.begin(), c.zeros.end(), uint8_t{0});
      for (int64_t i = 0; i < c.m * c.problem.k; ++i) {
        store_double(ElementType::f32, c.a.data(), i, i / c.problem.k % 2 == 0 ? 2.5 : -2.5);
      }
      const Packed packed(c);
      for (const int64_t m : {17, 1}) {
        c.m = m;
        const Expected expected(c);
        for (const Isa isa : host_isas()) expect_right(c, expected, packed, isa);
      }
    }
  }
}

TEST(WeightOnly, UnpackingRestoresTheFile) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Case c = random_case(kSmallSeeds + 1000 + seed);
    const WeightOnlyProblem& p = c.problem;
    const Packed packed(c);
    Bytes codes(c.codes.size()), scales(c.scales.size()), zeros(c.zeros.size());
    unpack_weight_only(p, packed.layout, packed.memory.data(), c.groups, codes.data(),
                       scales.data(), zeros.data());
    if (!p.grouped) {
      ASSERT_EQ(codes, c.codes) << describe(c, Isa::avx2);
      ASSERT_EQ(scales, c.scales);
      ASSERT_EQ(zeros, c.zeros);
      continue;
    }
    for (int64_t n = 0; n < p.n; ++n) {
      const int64_t column = n * c.blocks() * p.block * p.bits / 8;
      for (int64_t k = 0; k < p.k; ++k) {
        ASSERT_EQ(bits_at(codes.data() + column, k, p.bits),
                  bits_at(c.codes.data() + column, k, p.bits));
      }
    }
  }
}

TEST(WeightOnly, RefusalsNameTheReason) {
  WeightOnlyProblem p;
  p.k = p.n = 64;
  EXPECT_EQ(weight_only_refusal(p), "");
  p.bits = 5;
  EXPECT_EQ(weight_only_refusal(p), "5-bit weights, supported: 2, 3, 4, 8");
  p.bits = 4;
  p.block = 512;
  EXPECT_EQ(weight_only_refusal(p), "block size 512, supported: 16, 32, 64, 128, 256");
  p.block = 32;
  p.compute = Compute::int8;
  p.zero_type = ElementType::f16;
  EXPECT_EQ(weight_only_refusal(p), "");
  p.grouped = true;
  EXPECT_EQ(weight_only_refusal(p), "int8 activations do not support g_idx (k = 64)");
  p.grouped = false;
  p.swiglu = 1.0F;
  EXPECT_EQ(weight_only_refusal(p), "");
  p.n = 48;
  EXPECT_EQ(weight_only_refusal(p),
            "swiglu of 48 columns in f32, supported: multiples of 32 in f32");
}

}  // namespace
}  // namespace lathe::cpu
