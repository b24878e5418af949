// SPDX-License-Identifier: MIT
// Random epilogues have the bits of a naive loop that applies one step at a time.
#include "targets/cpu/kernels/gemm/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "targets/cpu/kernels/gemm/epilogue_simple.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"
#include "tests/kernels/support/panels.h"

namespace lathe::cpu {
namespace {

using test::Guarded;

int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

ElementType pick_type(std::mt19937& random) {
  constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::f16,
                                    ElementType::i32, ElementType::i8,   ElementType::u8};
  return kTypes[pick(random, 0, 5)];
}

// An operand that owns its memory, for outputs up to [rows, columns].
struct OwnedOperand {
  OwnedOperand(std::mt19937& random, int64_t rows, int64_t columns)
      : values(pick_type(random), rows * columns * 3) {
    for (int64_t i = 0; i < values.count(); ++i) {
      values.set(i, static_cast<double>(pick(random, 0, 120)) - (is_unsigned() ? 0 : 60));
    }
    operand.data = values.data();
    operand.type = values.type();
    operand.column_stride = pick(random, 0, 2);
    operand.row_stride = pick(random, 0, 1) * columns * 2;
    if (pick(random, 0, 1) == 1) operand.scale = 0.37F;
    if (pick(random, 0, 1) == 1) operand.zero = 3;
    if (pick(random, 0, 3) == 0) operand = {.scale = 1.5F};
  }
  bool is_unsigned() const { return values.type() == ElementType::u8; }
  float at(int64_t row, int64_t column) const {
    if (operand.data == nullptr) return operand.scale;
    auto x =
        static_cast<float>(values.get(row * operand.row_stride + column * operand.column_stride));
    if (operand.zero != 0) x = x - operand.zero;
    return operand.scale != 1 ? x * operand.scale : x;
  }

  Guarded values;
  Operand operand;
};

struct EpilogueCase {
  EpilogueCase(std::mt19937& random, Isa on)
      : isa(on),
        rows(pick(random, 1, 18)),
        columns(pick(random, 1, 70)),
        row(pick(random, 0, 3)),
        column(pick(random, 0, 5)),
        integers(pick(random, 0, 1) == 1) {
    const int64_t all_rows = row + rows, all_columns = column + columns;
    for (int64_t i = 0; i < rows * columns; ++i) {
      integer_sums.push_back(static_cast<int32_t>(pick(random, -100000, 100000)));
      float_sums.push_back(static_cast<float>(integer_sums.back()) / 4096);
    }
    for (int64_t i = 0; i < all_rows + all_columns; ++i) {
      compensation.push_back(static_cast<int32_t>(pick(random, -1000, 1000)));
    }
    if (integers && pick(random, 0, 1) == 1) epilogue.column_compensation = compensation.data();
    if (integers && pick(random, 0, 1) == 1) {
      outer.push_back({compensation.data(), compensation.data() + 1});
      outer.push_back({compensation.data(), nullptr});
      outer.push_back({nullptr, compensation.data()});
    }
    epilogue.outer = outer;
    const int64_t count = pick(random, 0, 4);
    operands.reserve(static_cast<size_t>(count) + 1);
    for (int64_t i = 0; i < count; ++i) {
      EpilogueStep step;
      step.kind = static_cast<EpilogueStep::Kind>(pick(random, 0, 9));
      step.activation = static_cast<Activation>(pick(random, 0, kActivationCount - 1));
      step.a = 0.5F;
      step.b = 2;
      operands.emplace_back(random, all_rows, all_columns);
      step.operand = operands.back().operand;
      steps.push_back(step);
    }
    epilogue.steps = steps;
    epilogue.out = pick_type(random);
    operands.emplace_back(random, all_rows, all_columns);
    if (pick(random, 0, 1) == 1) {
      zero = &operands.back();
      epilogue.out_zero = zero->operand;
    }
  }

  // Element (r, c) of the tile, one step at a time; NaN: not compared.
  double expected(int64_t r, int64_t c) const {
    const auto index = static_cast<size_t>(r * columns + c);
    float x = float_sums[index];
    if (integers) {
      int64_t sum = integer_sums[index];
      if (epilogue.column_compensation != nullptr)
        sum += compensation[static_cast<size_t>(column + c)];
      for (const OuterCompensation& o : outer) {
        const int64_t left = o.row == nullptr ? 1 : o.row[row + r];
        sum -= left * (o.column == nullptr ? 1 : o.column[column + c]);
      }
      if (epilogue.out == ElementType::i32 && steps.empty() && zero == nullptr) {
        return static_cast<double>(sum);
      }
      x = static_cast<float>(sum);
    }
    for (size_t s = 0; s < steps.size(); ++s) {
      x = apply(steps[s], x, operands[s].at(row + r, column + c));
    }
    return rounded(x, zero == nullptr ? 0 : zero->at(row + r, column + c));
  }

  float apply(const EpilogueStep& step, float x, float y) const {
    using Kind = EpilogueStep::Kind;
    float out = 0;
    switch (step.kind) {
      case Kind::add:
        return x + y;
      case Kind::sub:
        return x - y;
      case Kind::sub_reversed:
        return y - x;
      case Kind::mul:
        return x * y;
      case Kind::div:
        return x / y;
      case Kind::div_reversed:
        return y / x;
      case Kind::min:
        return std::isnan(y) || y < x ? y : x;
      case Kind::max:
        return std::isnan(y) || y > x ? y : x;
      case Kind::round:
        return std::isnan(x) ? step.a : std::nearbyint(std::min(std::max(x, step.a), step.b));
      case Kind::activate:
        vector_ops(isa).activate(step.activation, step.a, step.b, &x, &out, 1);
        return out;
    }
    return out;
  }

  double rounded(float x, float zero_point) const {
    if (is_floating(epilogue.out)) {
      Guarded one(epilogue.out, 1);
      one.set(0, x);
      return one.get(0);
    }
    if (std::isnan(x)) return std::numeric_limits<double>::quiet_NaN();
    const double low = epilogue.out == ElementType::i8   ? -128
                       : epilogue.out == ElementType::u8 ? 0
                                                         : -0x1p31;
    const double high = epilogue.out == ElementType::i8   ? 127
                        : epilogue.out == ElementType::u8 ? 255
                                                          : 0x1p31 - 128;
    const double y = std::nearbyint(static_cast<double>(x)) + std::nearbyint(zero_point);
    // Beyond 2^30 the zero point may wrap an i32 output: not compared.
    if (epilogue.out == ElementType::i32 && std::abs(y) > 0x1p30) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return std::min(std::max(y, low), high);
  }

  std::string name() const {
    return std::string(to_string(isa)) + ' ' + std::to_string(rows) + " x " +
           std::to_string(columns) + (integers ? " i32" : " f32") + " to " +
           std::string(to_string(epilogue.out)) + ", " + std::to_string(steps.size()) + " steps";
  }

  Isa isa;
  int64_t rows, columns, row, column;
  bool integers;
  std::vector<float> float_sums;
  std::vector<int32_t> integer_sums;
  std::vector<int32_t> compensation;
  std::vector<OuterCompensation> outer;
  std::vector<EpilogueStep> steps;
  std::vector<OwnedOperand> operands;
  const OwnedOperand* zero = nullptr;
  Epilogue epilogue;
};

void check_case(const EpilogueCase& c) {
  const int64_t stride = c.columns + 2;
  Guarded out(c.epilogue.out, c.rows * stride);
  EpilogueTile tile;
  tile.sums = c.integers ? static_cast<const void*>(c.integer_sums.data()) : c.float_sums.data();
  tile.integer_sums = c.integers;
  tile.sums_stride = c.columns;
  tile.rows = c.rows;
  tile.columns = c.columns;
  tile.row = c.row;
  tile.column = c.column;
  tile.out = out.data();
  tile.out_stride = stride * out_size(c.epilogue.out);
  finish_tile(c.isa)(c.epilogue, tile);
  ASSERT_TRUE(out.guards_hold()) << c.name();
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t column = 0; column < stride; ++column) {
      if (column >= c.columns) {
        ASSERT_TRUE(out.is_fill(r * stride + column)) << c.name() << " wrote beyond row " << r;
        continue;
      }
      const double expected = c.expected(r, column), found = out.get(r * stride + column);
      if (!std::isnan(expected)) {
        ASSERT_EQ(found, expected) << c.name() << " at " << r << ", " << column;
      }
    }
  }
}

TEST(Epilogue, RandomStepsHaveTheBitsOfANaiveLoop) {
  std::mt19937 random(21);
  const std::vector<Isa> isas = test::host_isas();
  for (int64_t i = 0; i < test::cases(600); ++i) {
    check_case(EpilogueCase(random, isas[static_cast<size_t>(i) % isas.size()]));
    if (HasFatalFailure()) return;
  }
}

// SiLU fused with requantisation equals SiLU then rounding, at inputs around each rounding
// boundary.
TEST(Epilogue, FusedInt8SiluEqualsSiluThenRounding) {
  std::vector<float> inputs = {0,    -0.0F,  -1e-30F, -88,       -1e30F,   1e30F,
                               0.5F, 254.5F, NAN,     -INFINITY, INFINITY, -3e38F};
  for (int i = -3; i < 300; ++i) {
    for (const float from : {0.4999F, 0.5F, 0.6F, 0.65F, 0.7F, 0.75F}) {
      inputs.push_back(static_cast<float>(i) - 1 + from);
    }
  }
  const auto silu = [](float x) { return x / (1 + std::exp(-static_cast<double>(x))); };
  for (int i = 1; i < 40; ++i) {
    float low = static_cast<float>(i) - 0.5F, high = static_cast<float>(i);
    while (std::nextafter(low, high) < high) {
      const float middle = low + (high - low) / 2;
      (silu(middle) < i - 0.5 ? low : high) = middle;
    }
    for (int j = 0; j < 20; ++j) low = std::nextafter(low, 0.0F);
    for (int j = 0; j < 40; ++j) inputs.push_back(low = std::nextafter(low, 1e9F));
  }
  const auto count = static_cast<int64_t>(inputs.size());
  for (const Isa isa : test::host_isas()) {
    std::vector<float> results(inputs.size());
    vector_ops(isa).activate(Activation::silu, 1, 0, inputs.data(), results.data(), count);
    for (const ElementType type : {ElementType::u8, ElementType::i8}) {
      for (const int zero : {0, 5}) {
        const EpilogueStep step{EpilogueStep::Kind::activate, {}, Activation::silu, 1, 0};
        Epilogue epilogue;
        epilogue.steps = {&step, 1};
        epilogue.out = type;
        epilogue.out_zero.scale = static_cast<float>(zero);
        SimpleEpilogue simple;
        ASSERT_TRUE(simplify(epilogue, simple));
        epilogue.simple = &simple;
        Guarded out(type, count);
        EpilogueTile tile;
        tile.sums = inputs.data();
        tile.sums_stride = count;
        tile.rows = 1;
        tile.columns = count;
        tile.out = out.data();
        finish_tile(isa)(epilogue, tile);
        const double least = type == ElementType::u8 ? 0 : -128, most = least + 255;
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(i);
          const double rounded = std::nearbyint(static_cast<double>(results[at])) + zero;
          const double expected = std::isnan(rounded) ? least : std::clamp(rounded, least, most);
          ASSERT_EQ(out.get(i), expected)
              << to_string(isa) << ": " << inputs[at] << " to " << to_string(type);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
