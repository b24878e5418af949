// SPDX-License-Identifier: MIT
#include "ops/interpret.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/math.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

Expr x(int index, ExprType type = ExprType::f32) { return Expr::argument(index, type); }

Tensor iota(ElementType type, Dims dims) {
  Tensor tensor(type, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    store_double(type, tensor.data(), i, static_cast<double>(i % 7));
  }
  return tensor;
}

Tensor apply(const Expr& expr, std::vector<Tensor> inputs, ElementType type, Dims dims,
             ThreadPool* pool = nullptr) {
  Tensor out(type, std::move(dims));
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  evaluate_elementwise(CompiledExpr(expr), views, out.view(), pool);
  return out;
}

TEST(Interpret, AddsVectorsOfEveryLength) {
  const CompiledExpr add(x(0) + x(1));
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<float> a(static_cast<size_t>(count)), b(a), out(a.size() + 1, -1);
    std::iota(a.begin(), a.end(), 1.0f);
    std::iota(b.begin(), b.end(), 100.0f);
    add.run(std::vector<ElementOperand>{{a.data()}, {b.data()}}, out.data(), ElementType::f32,
            count);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i]) << count;
    EXPECT_EQ(out.back(), -1) << "wrote beyond element " << count;
  }
}

TEST(Interpret, ReadsStridedAndRepeatedOperands) {
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  const float b = 10;
  std::vector<float> out(3);
  CompiledExpr(x(0) * x(1))
      .run(std::vector<ElementOperand>{{a.data(), ElementType::f32, 2}, {&b, ElementType::f32, 0}},
           out.data(), ElementType::f32, 3);
  EXPECT_EQ(out, (std::vector<float>{10, 30, 50}));
}

TEST(Interpret, ReadsAndWritesMisalignedMemory) {
  std::vector<char> bytes(4 * 64 + 1), result(4 * 64 + 1);
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 0.0f);
  std::memcpy(bytes.data() + 1, values.data(), 256);
  CompiledExpr(x(0) + 1).run(std::vector<ElementOperand>{{bytes.data() + 1}}, result.data() + 1,
                             ElementType::f32, 64);
  std::memcpy(values.data(), result.data() + 1, 256);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], static_cast<float>(i + 1));
}

TEST(Interpret, BroadcastsLikeNumpy) {
  const Tensor a = iota(ElementType::f32, {2, 1, 3}), b = iota(ElementType::f32, {4, 1});
  const Tensor scalar = iota(ElementType::f32, {});
  const Tensor out = apply(x(0) * 10 + x(1) + x(2), {a, b, scalar}, ElementType::f32, {2, 4, 3});
  for (int64_t i = 0; i < 24; ++i) {
    const int64_t row = i / 12, middle = i / 3 % 4, column = i % 3;
    EXPECT_EQ(out.as<float>()[i], static_cast<float>((row * 3 + column) * 10 + middle)) << i;
  }
}

TEST(Interpret, FollowsStridesOfInputsAndOutput) {
  Tensor storage(ElementType::f32, {3, 40}), target(ElementType::f32, {80, 3});
  std::iota(storage.as<float>(), storage.as<float>() + 120, 0.0f);
  // Transposed input, every second row of the output.
  TensorView in{ElementType::f32, 2, {40, 3}, {1, 40}, storage.data()};
  TensorView out{ElementType::f32, 2, {40, 3}, {6, 1}, target.data()};
  evaluate_elementwise(CompiledExpr(-x(0)), {&in, 1}, out);
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ(target.as<float>()[i * 6 + j], -static_cast<float>(j * 40 + i));
      EXPECT_EQ(target.as<float>()[i * 6 + 3 + j], 0);
    }
  }
}

TEST(Interpret, ReversesWithNegativeStrides) {
  Tensor a = iota(ElementType::f32, {5}), out(ElementType::f32, {5});
  TensorView in{ElementType::f32, 1, {5}, {-1}, a.as<float>() + 4};
  evaluate_elementwise(CompiledExpr(x(0) + 0), {&in, 1}, out.view());
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(out.as<float>()[i], static_cast<float>(4 - i));
}

TEST(Interpret, WritesOverItsOwnInput) {
  Tensor a = iota(ElementType::f32, {1000});
  const TensorView view = a.view();
  evaluate_elementwise(CompiledExpr(x(0) * x(0) + x(0)), {&view, 1}, view);
  for (int64_t i = 0; i < 1000; ++i) {
    const auto v = static_cast<float>(i % 7);
    ASSERT_EQ(a.as<float>()[i], v * v + v);
  }
}

TEST(Interpret, SkipsEmptyTensors) {
  const Tensor out =
      apply(x(0) + x(1), {iota(ElementType::f32, {0, 3}), iota(ElementType::f32, {3})},
            ElementType::f32, {0, 3});
  EXPECT_EQ(out.count(), 0);
}

TEST(Interpret, ComputesSmallFloatsInF32) {
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f8e4m3fn}) {
    const Tensor a = iota(type, {70});
    const Tensor out = apply(x(0) / 3 * 3, {a}, type, {70});
    for (int64_t i = 0; i < 70; ++i) {
      ASSERT_EQ(load_double(type, out.data(), i), static_cast<double>(i % 7)) << to_string(type);
    }
  }
}

TEST(Interpret, WrapsIntegersWhenStoring) {
  Tensor a(ElementType::i8, {3});
  a.as<int8_t>()[0] = 127, a.as<int8_t>()[1] = -128, a.as<int8_t>()[2] = 5;
  const Expr i = x(0, ExprType::i64);
  const Tensor sum = apply(i + 1, {a}, ElementType::i8, {3});
  EXPECT_EQ(sum.as<int8_t>()[0], -128);
  const Tensor quotient = apply(i / -1, {a}, ElementType::i8, {3});
  EXPECT_EQ(quotient.as<int8_t>()[1], -128);
  const Tensor wide = apply(i * 1000, {a}, ElementType::i64, {3});
  EXPECT_EQ(wide.as<int64_t>()[2], 5000);
}

TEST(Interpret, HandlesPackedTypesDenseAndBroadcast) {
  for (const ElementType type : {ElementType::i4, ElementType::u2, ElementType::u4}) {
    const int64_t top = type == ElementType::u2 ? 4 : 7;
    Tensor a(type, {3, 1}), b(type, {5}), out(type, {3, 5});
    for (int64_t i = 0; i < 3; ++i) store_int(type, a.data(), i, i);
    for (int64_t i = 0; i < 5; ++i) store_int(type, b.data(), i, i);
    const ExprType compute = compute_type(type);
    const std::array<TensorView, 2> in{a.view(), b.view()};
    evaluate_elementwise(CompiledExpr(max(x(0, compute), x(1, compute))), in, out.view());
    for (int64_t i = 0; i < 15; ++i) {
      const int64_t b_value = type == ElementType::u2 ? i % 5 % 4 : i % 5;
      EXPECT_EQ(load_int(type, out.data(), i), std::max(i / 5, b_value) % top) << i;
    }
  }
}

TEST(Interpret, ComparesToBooleansAndNormalisesThem) {
  Tensor flags(ElementType::boolean, {40});
  for (int64_t i = 0; i < 40; ++i) flags.as<uint8_t>()[i] = static_cast<uint8_t>(i % 3);
  const Tensor inverted = apply(!x(0, ExprType::boolean), {flags}, ElementType::boolean, {40});
  const Tensor less = apply(x(0) < 3, {iota(ElementType::f32, {40})}, ElementType::boolean, {40});
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(inverted.as<uint8_t>()[i], i % 3 == 0 ? 1 : 0);
    EXPECT_EQ(less.as<uint8_t>()[i], i % 7 < 3 ? 1 : 0);
  }
}

TEST(Interpret, StoresConstantsAndOperands) {
  const Tensor constant = apply(Expr::constant(ExprType::f32, 2.5), {}, ElementType::f32, {33});
  EXPECT_EQ(constant.as<float>()[32], 2.5f);
  const Tensor copy = apply(x(0), {iota(ElementType::f16, {33})}, ElementType::f32, {33});
  EXPECT_EQ(copy.as<float>()[32], 4.0f);
  const Expr bits = bitcast(bitcast(x(0), ExprType::i32), ExprType::f32);
  const Tensor same = apply(bits, {iota(ElementType::f32, {33})}, ElementType::f32, {33});
  EXPECT_EQ(same.as<float>()[32], 4.0f);
}

TEST(Interpret, IsBitIdenticalForAnyNumberOfThreads) {
  ThreadPool pool(4);
  const Tensor a = iota(ElementType::f32, {100, 1001}), b = iota(ElementType::f32, {1001});
  const Expr expr = exp(x(0)) * sin(x(1));
  const Tensor one = apply(expr, {a, b}, ElementType::f16, {100, 1001});
  const Tensor four = apply(expr, {a, b}, ElementType::f16, {100, 1001}, &pool);
  EXPECT_TRUE(identical(one, four));
}

TEST(Interpret, SharesEqualSubexpressionsAndReusesRegisters) {
  const Expr a = x(0);
  const Expr twice = exp(a) + exp(x(0));
  EXPECT_EQ(CompiledExpr(twice).steps(), CompiledExpr(exp(a)).steps() + 1);
  Expr chain = a;
  for (int i = 0; i < 100; ++i) chain = chain * a + 1;
  EXPECT_LE(CompiledExpr(chain).bytes_per_element(), 16);
}

TEST(Interpret, RunsLongChainsAndManyOperands) {
  constexpr int kCount = 20000;
  Expr sum = x(0);
  for (int i = 1; i < kCount; ++i) sum = sum + x(i);
  const Tensor one = iota(ElementType::f32, {4});
  const Tensor out = apply(sum, std::vector<Tensor>(kCount, one), ElementType::f32, {4});
  EXPECT_EQ(out.as<float>()[3], 3.0f * kCount);
}

TEST(Interpret, RejectsIncompatibleOperands) {
  const Tensor a = iota(ElementType::f32, {2}), wide = iota(ElementType::f64, {2});
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { apply(x(0) + 1, {a}, ElementType::f32, {3}); }),
            "size 2 of axis 0 of operand 0 does not broadcast to 3");
  EXPECT_EQ(message([&] { apply(x(0) + 1, {wide}, ElementType::f32, {2}); }),
            "operand 0 is f64, but the expression computes in f32");
  EXPECT_EQ(message([&] { apply(x(0) < 1, {a}, ElementType::f32, {2}); }),
            "the result is f32, but the expression computes in bool");
  EXPECT_EQ(message([&] { apply(x(1) + 1, {a}, ElementType::f32, {2}); }),
            "the expression has 2 operands, got 1");
}

// Every op on special values, by both sets of kernels and by constant folding.
TEST(Interpret, AgreesWithFoldingOnBothInstructionSets) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{0.0,    -0.0,    0.5,    -1.5, 2.5,         3,
                                   -7,     1e-40,   -1e-45, 1e9,  -3e38,       1e300,
                                   0x1p63, -0x1p63, inf,    -inf, std::nan("")};
  const auto check_all = [&](ExprType type, ElementType storage, const auto& functions) {
    for (size_t f = 0; f < functions.size(); ++f) {
      const Expr expr = functions[f](x(0, type), x(1, type));
      const CompiledExpr best(expr), portable(expr, CompiledExpr::Kernels::portable);
      const ElementType result = expr.type() == type ? storage : ElementType::boolean;
      for (const double a : values) {
        for (const double b : values) {
          if (is_integer(type) && !(std::abs(a) <= 0x1p62 && std::abs(b) <= 0x1p62)) continue;
          const auto whole = [&](double v) { return is_integer(type) ? std::trunc(v) : v; };
          uint64_t in[2]{}, out[2]{};
          store_double(storage, &in[0], 0, whole(a)), store_double(storage, &in[1], 0, whole(b));
          const std::vector<ElementOperand> operands{{&in[0], storage}, {&in[1], storage}};
          best.run(operands, &out[0], result, 1);
          portable.run(operands, &out[1], result, 1);
          const Expr folded = functions[f](Expr::constant_from_bits(type, in[0]),
                                           Expr::constant_from_bits(type, in[1]));
          ASSERT_TRUE(folded.is_constant());
          EXPECT_EQ(out[0], out[1]) << to_string(expr) << " of " << a << ", " << b;
          EXPECT_EQ(out[0], folded.constant_bits()) << to_string(expr) << " of " << a << ", " << b;
        }
      }
    }
  };
  using Function = Expr (*)(const Expr&, const Expr&);
  const std::vector<Function> common{
      [](const Expr& a, const Expr& b) { return a + b; },
      [](const Expr& a, const Expr& b) { return a - b; },
      [](const Expr& a, const Expr& b) { return a * b; },
      [](const Expr& a, const Expr& b) { return a / b; },
      [](const Expr& a, const Expr& b) { return min(a, b); },
      [](const Expr& a, const Expr& b) { return max(a, b); },
      [](const Expr& a, const Expr& b) { return a == b; },
      [](const Expr& a, const Expr& b) { return a != b; },
      [](const Expr& a, const Expr& b) { return a < b; },
      [](const Expr& a, const Expr& b) { return a >= b; },
      [](const Expr& a, const Expr&) { return abs(-a); },
      [](const Expr& a, const Expr& b) { return select(a < b, a, b * 2); },
      [](const Expr& a, const Expr&) { return convert(convert(a, ExprType::boolean), a.type()); },
      [](const Expr& a, const Expr& b) { return pow(a, b); },
      [](const Expr& a, const Expr& b) { return fmod(a, b); },
      [](const Expr& a, const Expr& b) { return mod(a, b); },
  };
  const std::vector<Function> real{
      [](const Expr& a, const Expr& b) { return fma(a, b, a); },
      [](const Expr& a, const Expr&) { return floor(a); },
      [](const Expr& a, const Expr&) { return ceil(a); },
      [](const Expr& a, const Expr&) { return trunc(a); },
      [](const Expr& a, const Expr&) { return round_even(a); },
      [](const Expr& a, const Expr&) { return sqrt(a); },
      [](const Expr& a, const Expr&) { return is_nan(a); },
      [](const Expr& a, const Expr&) { return convert(convert(a, ExprType::i64), a.type()); },
      [](const Expr& a, const Expr&) { return convert(convert(a, ExprType::i32), a.type()); },
      [](const Expr& a, const Expr&) { return convert(convert(a, ExprType::u64), a.type()); },
      [](const Expr& a, const Expr&) { return exp(a); },
      [](const Expr& a, const Expr&) { return log1p(a); },
      [](const Expr& a, const Expr&) { return tan(a); },
      [](const Expr& a, const Expr&) { return erf(a); },
  };
  const std::vector<Function> whole{
      [](const Expr& a, const Expr& b) { return a & b; },
      [](const Expr& a, const Expr& b) { return a | b; },
      [](const Expr& a, const Expr& b) { return a ^ ~b; },
      [](const Expr& a, const Expr& b) { return a << b; },
      [](const Expr& a, const Expr& b) { return a >> b; },
      [](const Expr& a, const Expr&) { return convert(convert(a, ExprType::f32), a.type()); },
  };
  check_all(ExprType::f32, ElementType::f32, common);
  check_all(ExprType::f32, ElementType::f32, real);
  check_all(ExprType::f64, ElementType::f64, common);
  check_all(ExprType::f64, ElementType::f64, real);
  check_all(ExprType::i64, ElementType::i64, common);
  check_all(ExprType::i64, ElementType::i64, whole);
  check_all(ExprType::u64, ElementType::u64, common);
  check_all(ExprType::u64, ElementType::u64, whole);
}

}  // namespace
}  // namespace lathe
