// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/isas.h"
#include "tests/kernels/support/panels.h"

namespace lathe::cpu {
namespace {

using test::Matrix;
using test::random_matrix;

ElementType type_of(GemmType gemm_type, bool is_a) {
  if (gemm_type == GemmType::f32) return ElementType::f32;
  if (gemm_type == GemmType::bf16) return ElementType::bf16;
  return is_a && gemm_type == GemmType::u8s8 ? ElementType::u8 : ElementType::i8;
}

struct Packed {
  explicit Packed(int64_t bytes) : lines(static_cast<size_t>((bytes + 63) / 64)) {}
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines;
};

Packed pack(Isa isa, GemmType gemm_type, const Matrix& b, ThreadPool* pool = nullptr) {
  const BrgemmKernel& kernel = brgemm_kernel(isa, gemm_type);
  const PackedLayout layout = packed_layout(kernel, gemm_type, b.rows, b.columns);
  Packed out(layout.bytes);
  pack_b(kernel, gemm_type,
         {b.bytes.data(), type_of(gemm_type, false), b.rows, b.columns, b.columns, 1},
         out.lines.data(), pool);
  return out;
}

MatmulCall call_of(Isa isa, GemmType gemm_type, const Matrix& a, const Packed& b, int64_t n,
                   int64_t m) {
  MatmulCall call;
  call.isa = isa;
  call.type = gemm_type;
  call.m = m;
  call.n = n;
  call.k = a.columns;
  call.a = a.bytes.data();
  call.a_type = type_of(gemm_type, true);
  call.a_row_stride = a.columns;
  call.b = b.lines.data();
  call.out_row_stride = n;
  call.epilogue.out = has_integer_sums(gemm_type) ? ElementType::i32 : ElementType::f32;
  return call;
}

// The first row has the same bits for M = 1 … 512, 1 to 3 threads and every variant for that M.
TEST(Matmul, RowsHaveTheSameBitsForAnyMThreadCountAndVariant) {
  std::mt19937 random(5);
  constexpr int64_t kMaxRows = 512;
  const std::vector<std::pair<int64_t, int64_t>> shapes{{70, 129}, {257, 64}, {40, 4100}};
  for (const Isa isa : test::host_isas()) {
    for (int p = 0; p < kGemmTypeCount; ++p) {
      const auto gemm_type = static_cast<GemmType>(p);
      for (const auto& [n, k] : shapes) {
        const int64_t max_rows = k > 1000 ? 16 : kMaxRows;
        const Matrix a = random_matrix(random, gemm_type, true, max_rows, k);
        const Matrix b = random_matrix(random, gemm_type, false, k, n);
        const Packed packed = pack(isa, gemm_type, b);
        std::vector<float> first(static_cast<size_t>(n));
        for (const int64_t m : {1, 2, 4, 5, 16, 512}) {
          if (m > max_rows) continue;
          for (const int threads : {1, 2, 3}) {
            ThreadPool pool(threads);
            for (const MatmulVariant& variant : matmul_variants()) {
              std::vector<float> out(static_cast<size_t>(m * n), -7);
              MatmulCall call = call_of(isa, gemm_type, a, packed, n, m);
              call.out = out.data();
              if (m > variant.most_rows) continue;
              variant.run(call, &pool);
              if (m == 1 && threads == 1 && variant.name == matmul_variants()[0].name) first = out;
              ASSERT_EQ(std::memcmp(first.data(), out.data(), first.size() * 4), 0)
                  << to_string(isa) << ' ' << p << ": " << m << " x " << n << " x " << k << ", "
                  << threads << " threads, " << variant.name;
            }
          }
        }
      }
    }
  }
}

// Large enough that the last chunks of each thread's share are split.
TEST(Matmul, SplitChunksHaveTheSameBits) {
  std::mt19937 random(15);
  const std::vector<std::array<int64_t, 3>> shapes{
      {512, 512, 512}, {128, 576, 576}, {301, 197, 900}};
  for (int p = 0; p < kGemmTypeCount; ++p) {
    const auto gemm_type = static_cast<GemmType>(p);
    for (const auto& [m, n, k] : shapes) {
      const Isa isa = test::host_isas().back();
      const Matrix a = random_matrix(random, gemm_type, true, m, k);
      const Matrix b = random_matrix(random, gemm_type, false, k, n);
      const Packed packed = pack(isa, gemm_type, b);
      const auto run = [&](ThreadPool* pool) {
        std::vector<float> out(static_cast<size_t>(m * n), -7);
        MatmulCall call = call_of(isa, gemm_type, a, packed, n, m);
        call.out = out.data();
        matmul(call, pool);
        return out;
      };
      const std::vector<float> alone = run(nullptr);
      for (const int threads : {2, 3}) {
        ThreadPool pool(threads);
        const std::vector<float> out = run(&pool);
        ASSERT_EQ(std::memcmp(alone.data(), out.data(), out.size() * 4), 0)
            << p << ": " << m << " x " << n << " x " << k << ", " << threads << " threads";
      }
    }
  }
}

// Large M: threads split M, and int8 tiles end with an f32 epilogue of some rows at a time. K is a
// multiple of k_group or not; with and without zero points.
TEST(Matmul, TallInt8GemmIsExactForAnyThreadCount) {
  std::mt19937 random(12);
  constexpr int64_t kRows = 700;
  for (const Isa isa : test::host_isas()) {
    for (const auto& [n, k, zero] : std::vector<std::array<int64_t, 3>>{
             {70, 24, 0}, {70, 96, 0}, {129, 61, 0}, {70, 96, 7}, {64, 4, 0}}) {
      const Matrix a = random_matrix(random, GemmType::u8s8, true, kRows, k);
      const Matrix b = random_matrix(random, GemmType::u8s8, false, k, n);
      const Packed packed = pack(isa, GemmType::u8s8, b);
      std::vector<float> scales(static_cast<size_t>(n));
      for (int64_t c = 0; c < n; ++c)
        scales[static_cast<size_t>(c)] = 0.25F + static_cast<float>(c);
      EpilogueStep step;
      step.kind = EpilogueStep::Kind::mul;
      step.operand = {scales.data(), ElementType::f32, 0, 1, 1, 0};
      MatmulCall call = call_of(isa, GemmType::u8s8, a, packed, n, kRows);
      call.epilogue.out = ElementType::f32;
      call.epilogue.steps = std::span(&step, 1);
      call.a_zero = static_cast<int32_t>(zero);
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        std::vector<float> out(static_cast<size_t>(kRows * n), -7);
        call.out = out.data();
        matmul(call, &pool);
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            double sum = 0;
            for (int64_t i = 0; i < k; ++i) {
              sum += (a.at(r, i) - static_cast<double>(zero)) * b.at(i, c);
            }
            ASSERT_EQ(out[static_cast<size_t>(r * n + c)],
                      static_cast<float>(sum) * scales[static_cast<size_t>(c)])
                << to_string(isa) << ": " << n << " x " << k << ", " << threads << " threads, at "
                << r << ", " << c;
          }
        }
      }
    }
  }
}

struct IntegerCase {
  int64_t m, n, k, batch;
  bool a_per_row, b_per_column;
};

TEST(Matmul, EmptyProblemsWriteNothingInAnyVariant) {
  for (const Isa isa : test::host_isas()) {
    for (const MatmulVariant& variant : matmul_variants()) {
      for (const auto& [batch, m, n] :
           std::vector<std::array<int64_t, 3>>{{0, 2, 3}, {1, 0, 3}, {2, 1, 0}, {0, 0, 0}}) {
        float out = 7;
        MatmulCall call;
        call.isa = isa;
        call.type = GemmType::f32;
        call.batch = batch;
        call.m = m;
        call.n = n;
        call.k = 5;
        call.out = &out;
        variant.run(call, nullptr);
        matmul(call, nullptr);
        EXPECT_EQ(out, 7) << variant.name << ' ' << batch << ' ' << m << ' ' << n;
      }
    }
  }
}

TEST(Matmul, ZeroPointsAreExact) {
  std::mt19937 random(6);
  ThreadPool pool(2);
  const std::vector<IntegerCase> cases{{3, 20, 33, 1, false, false}, {17, 65, 40, 1, true, false},
                                       {5, 33, 7, 2, false, true},   {20, 70, 130, 2, true, true},
                                       {9, 40, 4200, 1, true, true}, {100, 31, 64, 1, false, true}};
  for (const Isa isa : test::host_isas()) {
    for (const GemmType gemm_type : {GemmType::u8s8, GemmType::s8s8}) {
      for (const IntegerCase& c : cases) {
        const Matrix a = random_matrix(random, gemm_type, true, c.m * c.batch, c.k);
        const Matrix b = random_matrix(random, gemm_type, false, c.k, c.n);
        const Packed packed = pack(isa, gemm_type, b, &pool);
        std::vector<int32_t> out(static_cast<size_t>(c.m * c.n * c.batch));
        std::vector<int32_t> a_zeros, b_zeros;
        for (int64_t i = 0; i < c.m * c.batch; ++i) {
          a_zeros.push_back(static_cast<int32_t>(i * 37 % 200 - 60));
        }
        for (int64_t i = 0; i < c.n; ++i)
          b_zeros.push_back(static_cast<int32_t>(i * 53 % 255 - 128));
        MatmulCall call = call_of(isa, gemm_type, a, packed, c.n, c.m);
        call.out = out.data();
        call.batch = c.batch;
        call.a_batch_stride = c.m * c.k;
        call.out_batch_stride = c.m * c.n;
        call.a_zero = 11;
        if (c.a_per_row) call.a_zeros = a_zeros.data();
        if (c.b_per_column) call.b_zeros = b_zeros.data();
        matmul(call, &pool);
        for (int64_t r = 0; r < c.m * c.batch; ++r) {
          for (int64_t col = 0; col < c.n; ++col) {
            const double za = c.a_per_row ? a_zeros[static_cast<size_t>(r)] : 11;
            const double zb = c.b_per_column ? b_zeros[static_cast<size_t>(col)] : 0;
            double sum = 0;
            for (int64_t i = 0; i < c.k; ++i) sum += (a.at(r, i) - za) * (b.at(i, col) - zb);
            ASSERT_EQ(out[static_cast<size_t>(r * c.n + col)], sum)
                << to_string(isa) << ' ' << r << ' ' << col << " of " << c.m << " x " << c.n
                << " x " << c.k;
          }
        }
      }
    }
  }
}

// Each batch entry has its own B, with zero points per row and per column.
TEST(Matmul, BatchedInt8HasItsOwnColumnSums) {
  std::mt19937 random(9);
  constexpr int64_t kBatch = 3, kM = 5, kN = 37, kK = 21;
  for (const Isa isa : test::host_isas()) {
    const Matrix a = random_matrix(random, GemmType::s8s8, true, kBatch * kM, kK);
    const Matrix b = random_matrix(random, GemmType::s8s8, false, kBatch * kK, kN);
    std::vector<int32_t> out(kBatch * kM * kN), a_zeros, b_zeros(kN, 4);
    for (int32_t i = 0; i < kBatch * kM; ++i) a_zeros.push_back(i - 6);
    MatmulCall call = call_of(isa, GemmType::s8s8, a, Packed(0), kN, kM);
    call.out = out.data();
    call.batch = kBatch;
    call.a_batch_stride = kM * kK;
    call.out_batch_stride = kM * kN;
    call.a_zeros = a_zeros.data();
    call.b_zeros = b_zeros.data();
    matmul_dynamic(call, {b.bytes.data(), ElementType::i8, kK, kN, kN, 1}, kK * kN, nullptr);
    for (int64_t r = 0; r < kBatch * kM; ++r) {
      for (int64_t c = 0; c < kN; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < kK; ++i) {
          sum += (a.at(r, i) - a_zeros[static_cast<size_t>(r)]) * (b.at(r / kM * kK + i, c) - 4);
        }
        ASSERT_EQ(out[static_cast<size_t>(r * kN + c)], sum) << to_string(isa) << ' ' << r;
      }
    }
  }
}

TEST(Matmul, OperandsMayHaveAnyStrideAndType) {
  std::mt19937 random(7);
  ThreadPool pool(2);
  std::uniform_real_distribution<float> real(-1, 1);
  for (const Isa isa : test::host_isas()) {
    for (const GemmType gemm_type : {GemmType::f32, GemmType::bf16}) {
      for (const bool transposed : {false, true}) {
        for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
                 {1, 9, 3}, {20, 40, 30}, {33, 100, 65}, {15, 200, 1024}}) {
          std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
          for (float& x : a) x = bf16_to_float(float_to_bf16(real(random)));
          for (float& x : b) x = bf16_to_float(float_to_bf16(real(random)));
          std::vector<float> out(static_cast<size_t>(m * n));
          MatmulCall call;
          call.isa = isa;
          call.type = gemm_type;
          call.m = m;
          call.n = n;
          call.k = k;
          call.a = a.data();
          call.a_row_stride = transposed ? 1 : k;
          call.a_column_stride = transposed ? m : 1;
          call.out = out.data();
          call.out_row_stride = n;
          PackSource source{b.data(), ElementType::f32,   k,
                            n,        transposed ? 1 : n, transposed ? k : 1};
          matmul_dynamic(call, source, 0, &pool);
          for (int64_t r = 0; r < m; ++r) {
            for (int64_t c = 0; c < n; ++c) {
              double sum = 0, magnitude = 0;
              for (int64_t i = 0; i < k; ++i) {
                const double x = a[static_cast<size_t>(transposed ? i * m + r : r * k + i)];
                const double y = b[static_cast<size_t>(transposed ? c * k + i : i * n + c)];
                sum += x * y;
                magnitude += std::abs(x * y);
              }
              const double bound = static_cast<double>(k + 2) * 0x1p-24 * magnitude;
              ASSERT_NEAR(out[static_cast<size_t>(r * n + c)], sum, bound)
                  << to_string(isa) << ' ' << m << " x " << n << " x " << k << ' ' << transposed;
            }
          }
        }
      }
    }
  }
}

// With few threads, a GEMM runs on the thread that packed its B; with many, all B are packed first.
TEST(Matmul, BatchedFloatsHaveTheSameBitsForAnyPacking) {
  constexpr int64_t kBatch = 6, kM = 3, kN = 40, kGap = 2;
  std::mt19937 random(11);
  ThreadPool two(2), five(5);
  std::uniform_real_distribution<float> real(-1, 1);
  for (const Isa isa : test::host_isas()) {
    for (const GemmType gemm_type : {GemmType::f32, GemmType::bf16}) {
      for (const int64_t k : {7, 4100}) {  // 4100: split K
        std::vector<float> a(static_cast<size_t>(kBatch * kM * k)),
            b(static_cast<size_t>(kBatch * k * kN)), added(kBatch * kM * kN);
        for (std::vector<float>* values : {&a, &b, &added}) {
          for (float& x : *values) x = real(random);
        }
        const EpilogueStep step{EpilogueStep::Kind::add, {added.data(), ElementType::f32, kN, 1}};
        const auto run = [&](bool adds, ThreadPool* pool) {
          std::vector<float> out(kBatch * kM * (kN + kGap), -7);
          MatmulCall call;
          call.isa = isa;
          call.type = gemm_type;
          call.m = kM;
          call.n = kN;
          call.k = k;
          call.a = a.data();
          call.a_row_stride = k;
          call.a_batch_stride = kM * k;
          call.batch = kBatch;
          call.out = out.data();
          call.out_row_stride = kN + kGap;
          call.out_batch_stride = kM * (kN + kGap);
          if (adds) call.epilogue.steps = {&step, 1};
          matmul_dynamic(call, {b.data(), ElementType::f32, k, kN, kN, 1}, k * kN, pool);
          return out;
        };
        const std::vector<float> sums = run(false, nullptr), first = run(true, nullptr);
        for (size_t i = 0; i < first.size(); ++i) {
          const size_t row = i / (kN + kGap), column = i % (kN + kGap);
          const float more = column < kN ? added[row * kN + column] : 0;
          ASSERT_EQ(first[i], sums[i] + more) << to_string(isa) << ' ' << k << ' ' << i;
          if (column >= kN) ASSERT_EQ(first[i], -7);
        }
        EXPECT_EQ(run(true, &two), first) << to_string(isa) << ' ' << k;
        EXPECT_EQ(run(true, &five), first) << to_string(isa) << ' ' << k;
      }
    }
  }
}

// A random GEMM with zero points, strides and a batch, and its naive reference.
struct RandomMatmul {
  RandomMatmul(std::mt19937& random, bool large) {
    const auto pick = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    gemm_type = static_cast<GemmType>(pick(0, kGemmTypeCount - 1));
    batch = pick(0, 3) == 0 ? pick(2, 3) : 1;
    m = pick(1, pick(0, 4) == 0 ? 40 : 9);
    n = pick(1, large ? 300 : 40);
    k = pick(1, large ? 5000 : 70);
    dynamic = pick(0, 2) == 0;
    a_gap = pick(0, 1) * pick(1, 9);
    out_gap = pick(0, 1) * pick(1, 9);
    a = random_matrix(random, gemm_type, true, m * batch, k + a_gap);
    b = random_matrix(random, gemm_type, false, (dynamic ? batch : 1) * k, n);
    if (has_integer_sums(gemm_type)) {
      if (pick(0, 2) > 0) a_zero = static_cast<int32_t>(pick(-60, 140));
      if (pick(0, 1) == 1) a_zeros.resize(static_cast<size_t>(m * batch));
      if (pick(0, 1) == 1) b_zeros.resize(static_cast<size_t>(n));
      for (int32_t& x : a_zeros) x = static_cast<int32_t>(pick(-60, 140));
      for (int32_t& x : b_zeros) x = static_cast<int32_t>(pick(-128, 127));
    }
  }

  std::vector<float> run(Isa isa, ThreadPool* pool) const {
    MatmulCall call;
    call.isa = isa;
    call.type = gemm_type;
    call.m = m;
    call.n = n;
    call.k = k;
    call.a = a.bytes.data();
    call.a_type = type_of(gemm_type, true);
    call.a_row_stride = a.columns;
    call.a_batch_stride = m * a.columns;
    call.batch = batch;
    call.out_row_stride = n + out_gap;
    call.out_batch_stride = m * call.out_row_stride;
    call.epilogue.out = has_integer_sums(gemm_type) ? ElementType::i32 : ElementType::f32;
    call.a_zero = a_zero;
    if (!a_zeros.empty()) call.a_zeros = a_zeros.data();
    if (!b_zeros.empty()) call.b_zeros = b_zeros.data();
    std::vector<float> out(static_cast<size_t>(batch * call.out_batch_stride), kUntouched);
    call.out = out.data();
    const PackSource source{b.bytes.data(), type_of(gemm_type, false), k, n, n, 1};
    if (dynamic) {
      matmul_dynamic(call, source, batch > 1 ? k * n : 0, pool);
    } else {
      const Packed packed = pack(isa, gemm_type, b, pool);
      call.b = packed.lines.data();
      matmul(call, pool);
    }
    return out;
  }

  void expect(const std::vector<float>& out, Isa isa) const {
    for (int64_t r = 0; r < m * batch; ++r) {
      for (int64_t c = 0; c < n + out_gap; ++c) {
        const float found = out[static_cast<size_t>(r * (n + out_gap) + c)];
        if (c >= n) {
          ASSERT_EQ(found, kUntouched) << "beyond row " << r;
          continue;
        }
        const double za = a_zeros.empty() ? a_zero : a_zeros[static_cast<size_t>(r)];
        const double zb = b_zeros.empty() ? 0 : b_zeros[static_cast<size_t>(c)];
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < k; ++i) {
          const double x = (a.at(r, i) - za) * (b.at((dynamic ? r / m * k : 0) + i, c) - zb);
          sum += x;
          magnitude += std::abs(x);
        }
        if (has_integer_sums(gemm_type)) {
          int32_t bits = 0;
          std::memcpy(&bits, &found, 4);
          ASSERT_EQ(bits, sum) << text(isa) << " at " << r << ", " << c;
        } else {
          const double bound = static_cast<double>(k + 2) * 0x1p-24 * magnitude;
          ASSERT_NEAR(found, sum, bound) << text(isa) << " at " << r << ", " << c;
        }
      }
    }
  }

  std::string text(Isa isa) const {
    return std::string(to_string(isa)) + ": type " + std::to_string(static_cast<int>(gemm_type)) +
           ", " + std::to_string(batch) + " of " + std::to_string(m) + " x " + std::to_string(n) +
           " x " + std::to_string(k) + (dynamic ? ", B packed per call" : "");
  }

  static constexpr float kUntouched = -7;
  GemmType gemm_type = GemmType::f32;
  int64_t m = 1, n = 1, k = 1, batch = 1, a_gap = 0, out_gap = 0;
  bool dynamic = false;
  int32_t a_zero = 0;
  Matrix a, b;
  std::vector<int32_t> a_zeros, b_zeros;
};

TEST(Matmul, RandomProblemsMatchANaiveLoop) {
  std::mt19937 random(11);
  ThreadPool pool(2);
  for (int64_t i = 0; i < test::cases(test::kUsualCases); ++i) {
    const RandomMatmul c(random, i % 101 == 0);
    const Isa isa = test::isa_for_case(i);
    c.expect(c.run(isa, i % 3 == 0 ? &pool : nullptr), isa);
    if (HasFatalFailure()) return;
  }
}

TEST(Pack, UnpackingRestoresTheElements) {
  std::mt19937 random(8);
  ThreadPool pool(3);
  for (const Isa isa : test::host_isas()) {
    for (int p = 0; p < kGemmTypeCount; ++p) {
      const auto gemm_type = static_cast<GemmType>(p);
      for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {3, 33}, {64, 32}, {65, 31}, {130, 100}, {7, 300}}) {
        const Matrix b = random_matrix(random, gemm_type, false, k, n);
        const Packed packed = pack(isa, gemm_type, b, &pool);
        std::vector<char> rows(b.bytes.size());
        const BrgemmKernel& kernel = brgemm_kernel(isa, gemm_type);
        unpack_b(kernel, gemm_type, k, n, packed.lines.data(), rows.data());
        EXPECT_EQ(rows, b.bytes) << to_string(isa) << ' ' << packing_id(kernel, gemm_type);
        const PackedLayout layout = packed_layout(kernel, gemm_type, k, n);
        if (!has_integer_sums(gemm_type)) {
          const auto size = static_cast<size_t>(a_size(gemm_type));
          const auto depth = static_cast<size_t>(k), columns = static_cast<size_t>(n);
          std::vector<char> column(depth * size);
          for (size_t c = 0; c < columns; ++c) {
            read_column(column_of_b(kernel, layout, packed.lines.data(), static_cast<int64_t>(c)),
                        k * a_size(gemm_type), column.data());
            for (size_t i = 0; i < depth; ++i) {
              ASSERT_EQ(
                  std::memcmp(column.data() + i * size, &rows[(i * columns + c) * size], size), 0)
                  << to_string(isa) << ", element " << i << " of column " << c;
            }
          }
          continue;
        }
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (int64_t i = 0; i < k; ++i) sum += b.at(i, c);
          EXPECT_EQ(packed_sums(layout, packed.lines.data())[c], sum);
        }
      }
    }
  }
}

// Strided rows of uint8, packed as int8 by subtracting 128, equal the packed contiguous matrix.
TEST(Pack, PacksStridedRowsAndUint8) {
  std::mt19937 random(9);
  for (const Isa isa : test::host_isas()) {
    for (int p = 0; p < kGemmTypeCount; ++p) {
      const auto gemm_type = static_cast<GemmType>(p);
      const BrgemmKernel& kernel = brgemm_kernel(isa, gemm_type);
      for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 40}, {6, 64}, {63, 32}, {66, 70}, {129, 100}}) {
        const Matrix b = random_matrix(random, gemm_type, false, k, n);
        const Packed packed = pack(isa, gemm_type, b);
        const bool flips = has_integer_sums(gemm_type);
        const auto size = static_cast<int64_t>(b.bytes.size()) / (k * n), pitch = n + 3;
        std::vector<char> strided(static_cast<size_t>(((k - 1) * pitch + n) * size));
        for (int64_t i = 0; i < k * n * size; ++i) {
          const int64_t row = i / (n * size), at = row * pitch * size + i % (n * size);
          const char byte = b.bytes[static_cast<size_t>(i)];
          strided[static_cast<size_t>(at)] = flips ? static_cast<char>(byte ^ 0x80) : byte;
        }
        Packed other(packed_layout(kernel, gemm_type, k, n).bytes);
        const ElementType type = flips ? ElementType::u8 : type_of(gemm_type, false);
        pack_b(kernel, gemm_type, {strided.data(), type, k, n, pitch, 1}, other.lines.data(),
               nullptr);
        EXPECT_EQ(std::memcmp(packed.lines.data(), other.lines.data(),
                              packed.lines.size() * sizeof(Packed::Line)),
                  0)
            << to_string(isa) << ' ' << packing_id(kernel, gemm_type) << ' ' << k << 'x' << n;
      }
    }
  }
}

// Column-major B: packing transposes whole k groups, and copies columns that start within a group.
TEST(Pack, PacksTransposedMatrices) {
  std::mt19937 random(10);
  for (const Isa isa : test::host_isas()) {
    for (int p = 0; p < kGemmTypeCount; ++p) {
      const auto gemm_type = static_cast<GemmType>(p);
      const BrgemmKernel& kernel = brgemm_kernel(isa, gemm_type);
      for (const auto& [k, n, pitch] : std::vector<std::array<int64_t, 3>>{
               {1, 40, 1}, {6, 64, 8}, {64, 33, 65}, {67, 70, 68}, {130, 100, 130}}) {
        const Matrix b = random_matrix(random, gemm_type, false, k, n);
        const Packed packed = pack(isa, gemm_type, b);
        const auto size = static_cast<int64_t>(b.bytes.size()) / (k * n);
        std::vector<char> transposed(static_cast<size_t>(((n - 1) * pitch + k) * size));
        for (int64_t i = 0; i < k * n; ++i) {
          std::memcpy(transposed.data() + (i % n * pitch + i / n) * size, b.bytes.data() + i * size,
                      static_cast<size_t>(size));
        }
        Packed other(packed_layout(kernel, gemm_type, k, n).bytes);
        pack_b(kernel, gemm_type, {transposed.data(), type_of(gemm_type, false), k, n, 1, pitch},
               other.lines.data(), nullptr);
        EXPECT_EQ(std::memcmp(packed.lines.data(), other.lines.data(),
                              packed.lines.size() * sizeof(Packed::Line)),
                  0)
            << to_string(isa) << ' ' << packing_id(kernel, gemm_type) << ' ' << k << 'x' << n;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
