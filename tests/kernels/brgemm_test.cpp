// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"
#include "tests/kernels/support/panels.h"

namespace lathe::cpu {
namespace {

using test::Guarded;
using test::make_panels;
using test::Matrix;
using test::random_matrix;

int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

bool is_byte(ElementType type) { return type == ElementType::i8 || type == ElementType::u8; }

// A batch-reduce GEMM over `blocks` blocks; a row of A holds the k of all blocks contiguously.
struct Case {
  GemmType type = GemmType::f32;
  int64_t rows = 1, columns = 1, k = 1, blocks = 1;
  Matrix a, b;

  std::string name(Isa isa) const {
    return std::string(to_string(isa)) + " type " + std::to_string(static_cast<int>(type)) + ": " +
           std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(blocks) +
           " of " + std::to_string(k);
  }
  // An element of A B, or of |A| |B|.
  double sum(int64_t r, int64_t c, bool absolute) const {
    double total = 0;
    for (int64_t i = 0; i < k * blocks; ++i) {
      const double x = a.at(r, i) * b.at(i, c);
      total += absolute ? std::abs(x) : x;
    }
    return total;
  }
  double b_sum(int64_t c) const {
    double total = 0;
    for (int64_t i = 0; i < k * blocks; ++i) total += b.at(i, c);
    return total;
  }
};

Case make_case(std::mt19937& random, GemmType type) {
  Case out;
  out.type = type;
  out.rows = pick(random, 1, pick(random, 0, 4) == 0 ? 70 : 18);
  out.columns = pick(random, 1, pick(random, 0, 4) == 0 ? 300 : 70);
  out.k = pick(random, 1, pick(random, 0, 4) == 0 ? 200 : 40);
  out.blocks = pick(random, 1, 3);
  out.a = random_matrix(random, type, true, out.rows, out.k * out.blocks);
  out.b = random_matrix(random, type, false, out.k * out.blocks, out.columns);
  return out;
}

// Small K and large M, with partial tiles.
Case make_small_k_case(std::mt19937& random, GemmType type) {
  Case out;
  out.type = type;
  out.rows = pick(random, 20, 130);
  out.columns = pick(random, 1, pick(random, 0, 1) == 0 ? 40 : 200);
  out.blocks = pick(random, 0, 1) == 0 ? 1 : pick(random, 1, 5);
  out.k = pick(random, 1, pick(random, 0, 1) == 0 ? 5 : 66 / out.blocks) * 4;
  out.a = random_matrix(random, type, true, out.rows, out.k * out.blocks);
  out.b = random_matrix(random, type, false, out.k * out.blocks, out.columns);
  return out;
}

// Packed panels; the blocks of a panel are contiguous, as in convolutions.
struct Panels {
  Panels(const BrgemmKernel& kernel, const Case& c)
      : block_bytes(packed_panel_bytes(kernel, c.k)), stride(c.blocks * block_bytes) {
    const int64_t count = panel_count(kernel, c.columns);
    bytes.resize(static_cast<size_t>(count * stride));
    for (int64_t i = 0; i < c.blocks; ++i) {
      const std::vector<char> panels = make_panels(kernel, c.b, i * c.k, c.k);
      for (int64_t p = 0; p < count; ++p) {
        std::copy_n(panels.begin() + p * block_bytes, block_bytes,
                    bytes.begin() + p * stride + i * block_bytes);
      }
    }
  }
  const char* block(int64_t i) const { return bytes.data() + i * block_bytes; }

  int64_t block_bytes, stride;
  std::vector<char> bytes;
};

// Runs rows [first, first + rows), checks that nothing around the output changes, and returns the
// accumulators, row-major.
std::vector<float> run(Isa isa, const Case& c, int64_t first, int64_t rows,
                       const std::vector<float>* start = nullptr) {
  const BrgemmKernel& kernel = brgemm_kernel(isa, c.type);
  const Panels panels(kernel, c);
  std::vector<BrgemmBlock> blocks;
  for (int64_t i = 0; i < c.blocks; ++i) {
    blocks.push_back({c.a.address(first, i * c.k), panels.block(i)});
  }
  constexpr int64_t kGap = 3;
  constexpr float kPattern = -12345.5F;
  const int64_t stride = c.columns + kGap;
  std::vector<float> out(static_cast<size_t>(rows * stride + kGap), kPattern);
  BrgemmCall call;
  call.blocks = blocks.data();
  call.block_count = c.blocks;
  call.k = c.k;
  call.a_row_stride = c.a.columns * c.a.element;
  call.b_panel_stride = panels.stride;
  call.rows = rows;
  call.columns = c.columns;
  call.out = out.data();
  call.out_stride = stride * 4;
  if (start != nullptr) {
    call.start = start->data() + first * c.columns;
    call.start_stride = c.columns;
  }
  kernel.run(call);
  std::vector<float> accumulators;
  for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
    const float x = out[static_cast<size_t>(i)];
    if (i % stride < c.columns && i / stride < rows) {
      accumulators.push_back(x);
    } else {
      EXPECT_EQ(x, kPattern) << c.name(isa) << " wrote beyond its output, at " << i;
    }
  }
  return accumulators;
}

// Runs all rows with an epilogue into the tile's output.
void run_into(Isa isa, const Case& c, const Epilogue& epilogue, const EpilogueTile& tile,
              const std::vector<float>* start) {
  const BrgemmKernel& kernel = brgemm_kernel(isa, c.type);
  const Panels panels(kernel, c);
  std::vector<BrgemmBlock> blocks;
  for (int64_t i = 0; i < c.blocks; ++i) {
    blocks.push_back({c.a.address(0, i * c.k), panels.block(i)});
  }
  BrgemmCall call;
  call.blocks = blocks.data();
  call.block_count = c.blocks;
  call.k = c.k;
  call.a_row_stride = c.a.columns * c.a.element;
  call.b_panel_stride = panels.stride;
  call.rows = c.rows;
  call.columns = c.columns;
  call.out = tile.out;
  call.out_stride = tile.out_stride;
  call.epilogue = &epilogue;
  call.row = tile.row;
  call.column = tile.column;
  if (start != nullptr) {
    call.start = start->data();
    call.start_stride = c.columns;
  }
  kernel.run(call);
}

int32_t as_integer(float bits) {
  int32_t out = 0;
  std::memcpy(&out, &bits, 4);
  return out;
}

// The error of an f32 sum of n terms in any order is at most n 2^-24 of the sum of magnitudes.
void expect_exact(Isa isa, const Case& c, const std::vector<float>& accumulators) {
  const int shift = brgemm_kernel(isa, c.type).a_zero_shift;
  const auto terms = static_cast<double>(c.k * c.blocks);
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t col = 0; col < c.columns; ++col) {
      const float found = accumulators[static_cast<size_t>(r * c.columns + col)];
      if (has_integer_sums(c.type)) {
        ASSERT_EQ(as_integer(found), c.sum(r, col, false) + shift * c.b_sum(col))
            << c.name(isa) << " at " << r << ", " << col;
      } else {
        ASSERT_NEAR(found, c.sum(r, col, false), (terms + 2) * 0x1p-24 * c.sum(r, col, true))
            << c.name(isa) << " at " << r << ", " << col;
      }
    }
  }
}

TEST(Brgemm, AccumulatorsMatchANaiveLoop) {
  std::mt19937 random(1);
  for (int64_t i = 0; i < test::cases(test::kUsualCases); ++i) {
    const Isa isa = test::isa_for_case(i / kGemmTypeCount);
    const Case c = make_case(random, static_cast<GemmType>(i % kGemmTypeCount));
    expect_exact(isa, c, run(isa, c, 0, c.rows));
    if (HasFatalFailure()) return;
  }
}

// Prefetching is on: k = 0 must not read beyond the operands.
TEST(Brgemm, EmptyKYieldsZeros) {
  for (const Isa isa : test::host_isas()) {
    for (int64_t i = 0; i < 4 * kGemmTypeCount; ++i) {
      const BrgemmKernel& kernel = brgemm_kernel(isa, static_cast<GemmType>(i % kGemmTypeCount));
      constexpr int64_t kRows = 30, kColumns = 40, kStride = 8;
      const std::vector<char> a(kRows * kStride);
      std::vector<float> out(kRows * kColumns, 1);
      const BrgemmBlock block{a.data(), a.data()};
      BrgemmCall call;
      call.blocks = &block;
      call.block_count = i / kGemmTypeCount % 2;
      call.a_row_stride = kStride;
      call.rows = i / kGemmTypeCount / 2 == 0 ? 3 : kRows;
      call.columns = kColumns;
      call.a_is_cold = call.b_is_cold = call.b_continues = true;
      call.out = out.data();
      call.out_stride = kColumns * 4;
      kernel.run(call);
      for (int64_t at = 0; at < call.rows * kColumns; ++at) {
        ASSERT_EQ(out[static_cast<size_t>(at)], 0) << to_string(isa) << ' ' << i;
      }
    }
  }
}

TEST(Brgemm, RowsHaveTheSameBitsForAnyTile) {
  std::mt19937 random(2);
  for (const Isa isa : test::host_isas()) {
    for (int p = 0; p < kGemmTypeCount; ++p) {
      for (int i = 0; i < 12; ++i) {
        const Case c = make_case(random, static_cast<GemmType>(p));
        const std::vector<float> whole = run(isa, c, 0, c.rows);
        for (int64_t first = 0; first < c.rows;) {
          const int64_t rows = std::min(c.rows - first, pick(random, 1, 20));
          const std::vector<float> part = run(isa, c, first, rows);
          ASSERT_EQ(std::memcmp(part.data(), whole.data() + first * c.columns, part.size() * 4), 0)
              << c.name(isa) << ", rows " << first << " to " << first + rows;
          first += rows;
        }
      }
    }
  }
}

TEST(Brgemm, AccumulationContinuesAcrossCalls) {
  std::mt19937 random(3);
  for (const Isa isa : test::host_isas()) {
    for (int p = 0; p < kGemmTypeCount; ++p) {
      Case c = make_case(random, static_cast<GemmType>(p));
      c.k = 24;  // a multiple of k_group
      c.blocks = 4;
      c.a = random_matrix(random, c.type, true, c.rows, 96);
      c.b = random_matrix(random, c.type, false, 96, c.columns);
      const std::vector<float> whole = run(isa, c, 0, c.rows);
      Case first = c, second = c;
      first.blocks = second.blocks = 2;
      std::vector<float> accumulators = run(isa, first, 0, c.rows);
      const int64_t offset = 48;
      second.a.bytes.erase(second.a.bytes.begin(), second.a.bytes.begin() + offset * c.a.element);
      second.b.bytes.erase(second.b.bytes.begin(),
                           second.b.bytes.begin() + offset * c.columns * c.b.element);
      second.a.bytes.resize(c.a.bytes.size());
      accumulators = run(isa, second, 0, c.rows, &accumulators);
      EXPECT_EQ(std::memcmp(accumulators.data(), whole.data(), whole.size() * 4), 0) << c.name(isa);
    }
  }
}

// The fused epilogue has the bits of separate steps and writes nothing else. `gap` elements
// separate the rows of the output.
void expect_epilogue(std::mt19937& random, Isa isa, const Case& c, bool small_k, ElementType out,
                     int64_t gap) {
  const bool is_integer = has_integer_sums(c.type);
  std::vector<float> begin(static_cast<size_t>(c.rows * c.columns));
  for (float& x : begin) {
    const auto value = static_cast<int32_t>(pick(random, -1000, 1000));
    x = static_cast<float>(value);
    if (is_integer) std::memcpy(&x, &value, 4);
  }
  const std::vector<float>* start = pick(random, 0, 4) == 0 ? &begin : nullptr;
  const std::vector<float> accumulators = run(isa, c, 0, c.rows, start);
  Epilogue epilogue;
  epilogue.out = out;
  EpilogueTile tile;
  tile.row = pick(random, 0, 2);
  tile.column = pick(random, 0, 40);
  const int64_t width = tile.column + c.columns + pick(random, 0, 3);
  const ElementType residual_type = pick(random, 0, 1) == 1 ? epilogue.out : ElementType::f32;
  Guarded bias(ElementType::f32, width), scales(ElementType::f32, width);
  Guarded compensation(ElementType::i32, width),
      residual(residual_type, (tile.row + c.rows) * width);
  // Requantisation saturates values of any size, also beyond int32.
  constexpr double kRanges[] = {0x1p-12, 0x1p-12, 0x1p-5, 1, 0x1p30};
  const double range = is_integer ? kRanges[pick(random, 0, 4)] : 1;
  const double bias_range = is_byte(epilogue.out) && pick(random, 0, 2) == 0 ? 0x1p28 : 1;
  const bool has_infinity = is_byte(epilogue.out) && pick(random, 0, 3) == 0;
  const int64_t max_compensation = pick(random, 0, 1) == 0 ? 100000 : INT32_MAX;
  for (int64_t j = 0; j < width; ++j) {
    scales.set(j, static_cast<double>(pick(random, -50, 50)) / 8 * range);
    if (pick(random, 0, 3) == 0) scales.set(j, 0);
    bias.set(j, static_cast<double>(pick(random, -50, 50)) / 8 * bias_range);
    if (has_infinity && pick(random, 0, 3) == 0) {
      bias.set(j, pick(random, 0, 1) == 0 ? -INFINITY : INFINITY);
    }
    compensation.set(j, static_cast<double>(pick(random, -max_compensation, max_compensation)));
  }
  // Added to a scale of 0: values that the processor's bf16 conversion does not round correctly.
  constexpr double kSpecial[] = {0x1p-140, -0x1.fep-127, 0x1.fffffcp-127, NAN, INFINITY};
  const bool has_special = !is_byte(residual_type) && pick(random, 0, 1) == 1;
  for (int64_t j = 0; j < residual.count(); ++j) {
    residual.set(j, static_cast<double>(pick(random, 0, 100)));
    if (has_special && pick(random, 0, 9) == 0) residual.set(j, kSpecial[pick(random, 0, 4)]);
  }
  EpilogueStep steps[4];
  steps[0].kind = EpilogueStep::Kind::mul;
  steps[0].operand = {.data = scales.data(), .column_stride = 1};
  steps[1].operand = {.data = bias.data(), .column_stride = 1};
  steps[2].operand = {
      .data = residual.data(), .type = residual_type, .row_stride = width, .column_stride = 1};
  steps[3].kind = EpilogueStep::Kind::activate;
  const int64_t other = pick(random, -kActivationCount, kActivationCount - 1);
  steps[3].activation = other < 0 ? Activation::relu : static_cast<Activation>(other);
  // Other activations may return a NaN of either sign.
  if (has_special && other >= 0) steps[3].activation = Activation::hard_swish;
  if (small_k && !has_special && other >= 0) steps[3].activation = Activation::silu;
  steps[3].a = pick(random, 0, 1) == 0 ? 0.25F : 1;
  steps[3].b = 1;
  const int64_t first = has_special ? pick(random, 0, 1) * 2 : pick(random, 0, 3);
  epilogue.steps = std::span<const EpilogueStep>(steps).subspan(first, pick(random, 0, 4 - first));
  if (pick(random, 0, 1) == 1) epilogue.out_zero.scale = 5;
  if (is_integer && pick(random, 0, 1) == 1) {
    epilogue.column_compensation = reinterpret_cast<const int32_t*>(compensation.data());
  }
  tile.sums = accumulators.data();
  tile.integer_sums = is_integer;
  tile.sums_stride = c.columns;
  tile.rows = c.rows;
  tile.columns = c.columns;
  tile.out_stride = (c.columns + gap) * out_size(epilogue.out);
  std::vector<char> expected(static_cast<size_t>(c.rows * tile.out_stride + 256), 'x');
  std::vector<char> found = expected;
  tile.out = expected.data();
  finish_tile(isa)(epilogue, tile);
  tile.out = found.data();
  run_into(isa, c, epilogue, tile, start);
  ASSERT_EQ(found, expected) << c.name(isa) << " to " << to_string(epilogue.out) << ", "
                             << epilogue.steps.size() << " steps from " << first;
}

// Integers rounded to quantised values, and an int8 residual with a scale of its own.
TEST(Brgemm, ARequantisedResidualHasTheBitsOfSeparateSteps) {
  std::mt19937 random(9);
  for (const Isa isa : test::host_isas()) {
    for (int64_t i = 0; i < test::cases(100); ++i) {
      const auto type = i % 4 == 0 ? GemmType::s8s8 : GemmType::u8s8;
      const Case c = i % 3 == 0 ? make_case(random, type) : make_small_k_case(random, type);
      const std::vector<float> accumulators = run(isa, c, 0, c.rows);
      Epilogue epilogue;
      epilogue.out = i % 2 == 0 ? ElementType::u8 : ElementType::i8;
      EpilogueTile tile;
      tile.row = pick(random, 0, 2);
      tile.column = pick(random, 0, 40);
      const int64_t width = tile.column + c.columns + pick(random, 0, 3);
      Guarded scales(ElementType::f32, width), residual(epilogue.out, (tile.row + c.rows) * width);
      for (int64_t j = 0; j < width; ++j) scales.set(j, std::exp2(pick(random, -14, -6)));
      for (int64_t j = 0; j < residual.count(); ++j) {
        residual.set(j, static_cast<double>(pick(random, 0, 100)));
      }
      const auto zero = static_cast<float>(pick(random, 0, 100));
      const float high = epilogue.out == ElementType::u8 ? 255 : 127;
      EpilogueStep steps[5];
      steps[0].kind = EpilogueStep::Kind::mul;
      steps[0].operand = {.data = scales.data(), .column_stride = 1};
      steps[1].kind = EpilogueStep::Kind::round;
      steps[1].a = high - 255 - zero;
      steps[1].b = high - zero;
      steps[2].kind = EpilogueStep::Kind::mul;
      steps[2].operand = {.scale = 0.37F};
      steps[3].operand = {.data = residual.data(),
                          .type = epilogue.out,
                          .row_stride = width,
                          .column_stride = 1,
                          .scale = 0.81F,
                          .zero = static_cast<float>(pick(random, 0, 40))};
      steps[4].kind = EpilogueStep::Kind::activate;
      steps[4].activation = Activation::relu;
      epilogue.steps = std::span<const EpilogueStep>(steps).first(pick(random, 4, 5));
      if (pick(random, 0, 1) == 1) epilogue.out_zero.scale = 5;
      tile.sums = accumulators.data();
      tile.integer_sums = true;
      tile.sums_stride = c.columns;
      tile.rows = c.rows;
      tile.columns = c.columns;
      tile.out_stride = c.columns + pick(random, 0, 3);
      std::vector<char> expected(static_cast<size_t>(c.rows * tile.out_stride + 256), 'x');
      std::vector<char> found = expected;
      tile.out = expected.data();
      finish_tile(isa)(epilogue, tile);
      tile.out = found.data();
      run_into(isa, c, epilogue, tile, nullptr);
      ASSERT_EQ(found, expected) << c.name(isa) << " to " << to_string(epilogue.out);
    }
  }
}

TEST(Brgemm, TheEpilogueIsAppliedToTheAccumulators) {
  constexpr ElementType kOuts[] = {ElementType::f32, ElementType::bf16, ElementType::f16,
                                   ElementType::i8, ElementType::u8};
  std::mt19937 random(4);
  for (const Isa isa : test::host_isas()) {
    for (int64_t i = 0; i < test::cases(200); ++i) {
      const auto type = static_cast<GemmType>(i % kGemmTypeCount);
      const bool small_k = pick(random, 0, 2) == 0;
      const Case c = small_k ? make_small_k_case(random, type) : make_case(random, type);
      expect_epilogue(random, isa, c, small_k, kOuts[pick(random, 0, 4)], pick(random, 0, 3));
      if (HasFatalFailure()) return;
    }
  }
}

void set_float(Matrix& a, int64_t row, int64_t column, float x) {
  const char* bits = reinterpret_cast<const char*>(&x) + 4 - a.element;  // bf16: upper half
  std::memcpy(a.bytes.data() + (row * a.columns + column) * a.element, bits,
              static_cast<size_t>(a.element));
}

// Contiguous rows of one or two vectors; a block may end within a k group. Each row of A is
// followed by infinity, which must not be read as an operand.
TEST(Brgemm, SmallNAndKHaveTheSameEpilogue) {
  std::mt19937 random(6);
  for (const Isa isa : test::host_isas()) {
    for (int64_t i = 0; i < test::cases(200); ++i) {
      const bool is_bf16 = i % 4 != 0;
      Case c;
      c.type = is_bf16 ? GemmType::bf16 : GemmType::f32;
      c.rows = pick(random, 20, 100);
      c.columns = i % 2 == 0 ? 16 : pick(random, 15, 32);
      c.blocks = pick(random, 1, 5);
      c.k = pick(random, 1, 66 / c.blocks);
      const int64_t total_k = c.k * c.blocks;
      c.a = random_matrix(random, c.type, true, c.rows, total_k + 1);
      for (int64_t r = 0; r < c.rows; ++r) set_float(c.a, r, total_k, INFINITY);
      c.b = random_matrix(random, c.type, false, total_k, c.columns);
      expect_epilogue(random, isa, c, true, is_bf16 ? ElementType::bf16 : ElementType::f32,
                      pick(random, 0, 2) / 2);
      if (HasFatalFailure()) return;
    }
  }
}

// The last panel has half a vector of columns.
TEST(Brgemm, HalfVectorTailsHaveTheSameEpilogue) {
  std::mt19937 random(8);
  for (const Isa isa : test::host_isas()) {
    for (int64_t i = 0; i < test::cases(100); ++i) {
      Case c;
      c.rows = pick(random, 5, 40);
      c.columns = 8 + 16 * pick(random, 1, 8);
      c.k = pick(random, 1, i % 2 == 0 ? 20 : 120);
      c.a = random_matrix(random, c.type, true, c.rows, c.k);
      c.b = random_matrix(random, c.type, false, c.k, c.columns);
      expect_epilogue(random, isa, c, false, ElementType::f32, pick(random, 0, 3));
      if (HasFatalFailure()) return;
    }
  }
}

// Zero accumulators, NaNs with a payload and denormal biases: the processor's bf16 conversion
// rounds these differently.
TEST(Brgemm, SpecialBf16AccumulatorsAreRoundedAlike) {
  std::mt19937 random(7);
  for (const Isa isa : test::host_isas()) {
    for (int64_t i = 0; i < test::cases(100); ++i) {
      Case c;
      c.type = GemmType::bf16;
      c.rows = pick(random, 24, 60);
      c.columns = i % 2 == 0 ? 16 : 64;
      c.k = pick(random, 1, 20) * 2;
      c.a = random_matrix(random, c.type, true, c.rows, c.k);
      c.b = random_matrix(random, c.type, false, c.k, c.columns);
      for (int64_t r = 0; r < c.rows; ++r) {
        for (int64_t j = 0; r % 5 == 0 && j < c.k; ++j) set_float(c.a, r, j, 0);
      }
      const float nan = std::bit_cast<float>(uint32_t{0x7FE50000});
      if (i % 3 == 0) set_float(c.a, pick(random, 0, c.rows - 1), pick(random, 0, c.k - 1), nan);
      Guarded bias(ElementType::f32, c.columns);
      for (int64_t j = 0; j < c.columns; ++j) {
        bias.set(j, static_cast<double>(pick(random, -8, 8)) / 8);
        if (i % 5 == 0 && j % 3 == 0) bias.set(j, 0x1.8p-128);
      }
      EpilogueStep steps[2];
      steps[0].operand = {.data = bias.data(), .column_stride = 1};
      steps[1].kind = EpilogueStep::Kind::activate;
      steps[1].activation = Activation::relu;
      Epilogue epilogue;
      epilogue.out = ElementType::bf16;
      epilogue.steps =
          std::span<const EpilogueStep>(steps).first(i % 4 < 2 ? 1 + i % 2 : 2 - i % 2);
      const std::vector<float> accumulators = run(isa, c, 0, c.rows);
      EpilogueTile tile;
      tile.sums = accumulators.data();
      tile.sums_stride = c.columns;
      tile.rows = c.rows;
      tile.columns = c.columns;
      tile.out_stride = c.columns * 2;
      std::vector<char> expected(static_cast<size_t>(c.rows * tile.out_stride), 'x');
      std::vector<char> found = expected;
      tile.out = expected.data();
      finish_tile(isa)(epilogue, tile);
      tile.out = found.data();
      run_into(isa, c, epilogue, tile, nullptr);
      ASSERT_EQ(found, expected) << c.name(isa) << ", " << epilogue.steps.size() << " steps";
    }
  }
}

// One test per instruction set, so that unsupported ones are reported as skipped.
class BrgemmOn : public testing::TestWithParam<Isa> {};

// 255 · ±127 everywhere: int16 intermediates would saturate.
TEST_P(BrgemmOn, TheLargestIntegersAreExactAtEveryRemainder) {
  const Isa isa = GetParam();
  if (!host_supports(isa)) {
    GTEST_SKIP() << "kernels for " << to_string(isa)
                 << " are only disassembled: this processor cannot run them";
  }
  for (const GemmType type : {GemmType::u8s8, GemmType::s8s8}) {
    for (int64_t k = 1; k <= 67; ++k) {
      for (const int sign : {1, -1, 0}) {
        Case c;
        c.type = type;
        c.rows = 1 + k % 17;
        c.columns = 1 + k % 37;
        c.k = k;
        c.a = {c.rows, k, 1, {}, {}};
        c.b = {k, c.columns, 1, {}, {}};
        const double largest = type == GemmType::u8s8 ? 255 : k % 2 == 0 ? -128 : 127;
        c.a.values.assign(static_cast<size_t>(c.rows * k), largest);
        c.a.bytes.assign(static_cast<size_t>(c.rows * k),
                         static_cast<char>(static_cast<int>(largest)));
        if (type == GemmType::u8s8) c.a.bytes.assign(c.a.bytes.size(), '\xFF');
        for (int64_t i = 0; i < k * c.columns; ++i) {
          const int x = sign != 0 ? 127 * sign : (i / c.columns % 2 == 0 ? 127 : -127);
          c.b.values.push_back(x);
          c.b.bytes.push_back(static_cast<char>(x));
        }
        expect_exact(isa, c, run(isa, c, 0, c.rows));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(FastestIsa, PrefersAvx512WhereAmxTilesWouldBeMostlyEmpty) {
  EXPECT_EQ(fastest_isa(Isa::amx, GemmType::u8s8, 512, 512, 512), Isa::amx);
  EXPECT_EQ(fastest_isa(Isa::amx, GemmType::s8s8, 5, 32, 64), Isa::amx);
  EXPECT_EQ(fastest_isa(Isa::amx, GemmType::u8s8, 4, 512, 512), Isa::avx512_vnni);
  EXPECT_EQ(fastest_isa(Isa::amx, GemmType::u8s8, 12544, 16, 27), Isa::avx512_vnni);
  EXPECT_EQ(fastest_isa(Isa::amx, GemmType::s8s8, 512, 24, 64), Isa::avx512_vnni);
  // Float accumulation order depends on the instruction set, so it must not change with the shape.
  EXPECT_EQ(fastest_isa(Isa::amx, GemmType::bf16, 1, 16, 27), Isa::amx);
  EXPECT_EQ(fastest_isa(Isa::avx2, GemmType::u8s8, 1, 16, 27), Isa::avx2);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, BrgemmOn, testing::ValuesIn(test::known_isas()),
                         [](const auto& each) { return std::string(to_string(each.param)); });

}  // namespace
}  // namespace lathe::cpu
