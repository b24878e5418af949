// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/os_code_memory.h"
#include "codegen/kernel.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/cpu/generated_elementwise.h"
#include "targets/cpu/kernel_variants.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr std::string_view kRegion = R"(program "region" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 40], %c: f32[40], %r: f32[n, 1]) {
    %a = mul(%x, %c)
    %b = add(%a, %r)
    %y = abs(%b)
    return %y as "y"
  }
})";

Tensor counted(Dims dims) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(i % 23 - 11) / 7;
  }
  return tensor;
}

Tensor result() {
  const auto plan = compile(parse_program(kRegion), {.target = find_target("cpu")});
  Session session(plan);
  return session
      .run(std::vector<Box>{Box{counted({5, 40})}, Box{counted({40})}, Box{counted({5, 1})}})
      .at(0)
      .tensor();
}

TEST(GeneratedElementwise, HasTheBitsOfTheInterpreterWhereExecutableMemoryIsRefused) {
  const Tensor generated = result();
  refuse_code_memory(true);
  const Tensor interpreted = result();
  refuse_code_memory(false);
  ASSERT_EQ(generated.count(), 200);
  EXPECT_EQ(std::memcmp(generated.data(), interpreted.data(), 800), 0);
}

constexpr std::string_view kTypes = R"(program "types" stage imported {
  module @main(%q: TYPE[2, 3, 4, 5], %x: f32[2, 3, 4, 5], %c: f32[2, 3, 4, 5], %s: f32[]) {
    %a = mul(%x, %c)
    %b = dequantize_linear(%q, %s)
    %y = add(%a, %b)
    return %y as "y"
  }
})";

// A view of these extents with any order of axes, steps and repeated axes.
TensorView strided(std::vector<std::byte>& memory, ElementType type, const Dims& dims,
                   std::mt19937& random) {
  TensorView view{.type = type, .rank = static_cast<int>(dims.size())};
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  int64_t stride = random() % 4 == 0 ? 2 : 1;
  for (const size_t axis : order) {
    view.dims[axis] = dims[axis];
    view.strides[axis] = random() % 8 == 0 ? 0 : stride;
    stride *= dims[axis];
  }
  memory.resize(static_cast<size_t>(bytes_for(type, stride)));
  view.data = memory.data();
  for (int64_t i = 0; i < stride; ++i) {
    store_double(type, view.data, i,
                 static_cast<double>(random() % 199) - (type == ElementType::u8 ? 0 : 99));
  }
  return view;
}

// The last operand is a scalar.
void check_strides(const std::string& text) {
  std::mt19937 random(1);
  const auto program = parse_program(text);
  std::vector<const Value*> operands;
  for (const auto& parameter : program->main().parameters()) operands.push_back(parameter.get());
  std::vector<const Instruction*> instructions;
  for (const auto& instruction : program->main().instructions()) {
    instructions.push_back(instruction.get());
  }
  const ElementType result = instructions.back()->result()->type().element;
  const auto region = cpu::GeneratedElementwise::make(operands, instructions, *cpu::best_isa());
  ASSERT_NE(region, nullptr);
  for (int round = 0; round < 60; ++round) {
    Dims dims(1 + random() % 4);
    for (int64_t& dim : dims) dim = 1 + static_cast<int64_t>(random() % (dims.size() < 3 ? 90 : 9));
    std::vector<std::vector<std::byte>> memory(operands.size());
    std::vector<Tensor> dense;
    std::vector<TensorView> views, dense_views;
    for (size_t i = 0; i < operands.size(); ++i) {
      const ElementType element = operands[i]->type().element;
      const Dims own = i + 1 == operands.size() ? Dims{} : dims;
      views.push_back(strided(memory[i], element, own, random));
      dense.emplace_back(element, own);
      dense_views.push_back(dense.back().view());
      copy_elements(views.back(), dense_views.back());
    }
    const Tensor expected(result, dims), got(result, dims);
    std::vector<const TensorView*> in, dense_in;
    for (size_t i = 0; i < views.size(); ++i) {
      in.push_back(&views[i]), dense_in.push_back(&dense_views[i]);
    }
    ASSERT_TRUE(region->run(dense_in, expected.view(), nullptr));
    ASSERT_TRUE(region->run(in, got.view(), nullptr));
    const auto bytes = static_cast<size_t>(got.byte_size());
    ASSERT_EQ(std::memcmp(expected.data(), got.data(), bytes), 0) << "round " << round;
  }
}

TEST(GeneratedElementwise, HasTheBitsOfDenseOperandsForEveryStride) {
  if (!cpu::best_isa()) GTEST_SKIP() << "this processor has no machine";
  for (const std::string type : {"u8", "i8"}) {
    std::string text(kTypes);
    text.replace(text.find("TYPE"), 4, type);
    check_strides(text);
  }
  check_strides(R"(program "integers" stage imported {
  module @main(%p: i64[2, 3, 4, 5], %q: i64[2, 3, 4, 5], %r: i64[2, 3, 4, 5], %s: i64[]) {
    %a = add(%p, %q)
    %b = mul(%a, %s)
    %y = max(%b, %r)
    return %y as "y"
  }
})");
}

// What masks of models are made of.
constexpr std::string_view kMasks = R"(program "masks" stage imported {
  module @main(%a: i64[3, 70], %b: i64[3, 70]) {
    %c = equal(%a, %b)
    %d = less(%a, %b)
    %e = cast(%a) {to = bool}
    %f = and(%d, %e)
    %g = or(%c, %f)
    %h = sub(%a, %b)
    %z = abs(%h)
    return %g as "g", %z as "z"
  }
})";

TEST(GeneratedElementwise, ComputesIntegersOf64Bits) {
  if (!cpu::best_isa()) GTEST_SKIP() << "this processor has no machine";
  constexpr std::array<int64_t, 7> kBounds{0, 1, -1, INT64_MIN, 1LL << 32, -(1LL << 32), INT64_MAX};
  const Tensor a(ElementType::i64, {3, 70}), b(ElementType::i64, {3, 70});
  for (int64_t i = 0; i < a.count(); ++i) {
    a.as<int64_t>()[i] = kBounds[static_cast<size_t>(i % 7)] ^ (i % 2);
    b.as<int64_t>()[i] = kBounds[static_cast<size_t>(i / 7 % 7)];
  }
  const auto run = [&](std::string_view target) {
    Session session(compile(parse_program(kMasks), {.target = find_target(target)}));
    return session.run(std::vector<Box>{Box{a}, Box{b}});
  };
  const auto expected = run("ref");
  for (const bool refused : {false, true}) {
    refuse_code_memory(refused);
    const auto got = run("cpu");
    refuse_code_memory(false);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(identical(got.at(i).tensor(), expected.at(i).tensor())) << i << ' ' << refused;
    }
  }
}

constexpr std::string_view kTable = R"(program "table" stage imported {
  module @main(%x: u8[2, 37, 3, 70]) {
    %scale = literal f32[] {0.25}
    %half = literal f32[] {0.5}
    %zero = literal u8[] {7}
    %t = transpose(%x) {permutation = [0, 2, 3, 1]}
    %d = dequantize_linear(%t, %scale, %zero)
    %m = mul(%d, %half)
    %y = quantize_linear(%m, %half, %zero)
    return %y as "y"
  }
})";

TEST(Elementwise, LooksUpBytesOfTransposedOperands) {
  Tensor x(ElementType::u8, {2, 37, 3, 70});
  for (int64_t i = 0; i < x.count(); ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 + i / 70);
  std::vector<Tensor> results;
  for (const char* target : {"cpu", "ref"}) {
    Session session(compile(parse_program(kTable), {.target = find_target(target)}));
    results.push_back(session.run(std::vector<Box>{Box{x}}).at(0).tensor());
  }
  ASSERT_EQ(results[0].count(), x.count());
  for (int64_t i = 0; i < x.count(); ++i) {
    ASSERT_EQ(results[0].as<uint8_t>()[i], results[1].as<uint8_t>()[i]) << "element " << i;
  }
}

TEST(GeneratedElementwise, EqualKernelsShareTheirCode) {
  const auto isa = cpu::best_isa();
  if (!isa) GTEST_SKIP() << "this processor has no machine";
  const auto product = [&](float factor, ElementType type) {
    codegen::KernelDescription kernel{.operands = {{type}, {ElementType::f32}}};
    const std::array inputs{kernel.form.load(0, ExprType::f32),
                            kernel.form.constant(ExprType::f32, std::bit_cast<uint32_t>(factor))};
    kernel.phases = {
        {{{kernel.form.operation(ExprOp::mul, ExprType::f32, ExprType::f32, inputs), 1}}, {}}};
    return cpu::KernelVariants::make(std::move(kernel), *isa);
  };
  const auto first = product(2, ElementType::f32);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(product(2, ElementType::f32), first);
  EXPECT_NE(product(3, ElementType::f32), first);
  EXPECT_NE(product(2, ElementType::bf16), first);
  EXPECT_EQ(first->find(0), product(2, ElementType::f32)->find(0));
  // Kernels that are no more leave nothing behind that a later one would find.
  for (int i = 0; i < 300; ++i)
    EXPECT_NE(product(static_cast<float>(4 + i), ElementType::f32), first);
  EXPECT_EQ(product(2, ElementType::f32), first);
}

constexpr std::string_view kCasts = R"(program "casts" stage imported {
  symbol n bound 1..*
  module @main(%m: bool[n, 37], %i: u8[n, 37], %h: f16[n, 37]) {
    %f = cast(%m) {to = f32}
    %g = cast(%i) {to = f32}
    %a = mul(%f, %g)
    %w = cast(%h) {to = f32}
    %b = add(%a, %w)
    %t = cast(%b) {to = bool}
    %z = cast(%t) {to = f32}
    %y = sub(%b, %z)
    return %y as "y"
  }
})";

TEST(Elementwise, CastsAreStepsOfARegion) {
  std::vector<Box> inputs;
  for (const ElementType type : {ElementType::boolean, ElementType::u8, ElementType::f16}) {
    Tensor tensor(type, {5, 37});
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const int64_t value = type == ElementType::boolean ? i % 3 / 2 : i * i % 97;
      store_double(type, tensor.data(), i,
                   static_cast<double>(type == ElementType::f16 ? value - 40 : value));
    }
    inputs.emplace_back(std::move(tensor));
  }
  Session reference(compile(parse_program(kCasts), {.target = find_target("ref")}));
  const std::vector<Box> expected = reference.run(inputs);
  for (const bool refused : {false, true}) {
    const auto plan = compile(parse_program(kCasts), {.target = find_target("cpu")});
    ASSERT_EQ(plan->modules.front().launches.size(), 1U);
    EXPECT_EQ(plan->modules.front().launches.front().kernel->name(),
              "cpu.cast+cast+mul+cast+add+cast+cast+sub");
    Session session(plan);
    refuse_code_memory(refused);
    const std::vector<Box> got = session.run(inputs);
    refuse_code_memory(false);
    ASSERT_EQ(got.at(0).tensor().count(), 185);
    EXPECT_EQ(std::memcmp(got.at(0).tensor().data(), expected.at(0).tensor().data(), 740), 0);
  }
}

// In bf16, 1 + 2⁻⁹ is 1 and the square of 2⁻⁷⁰ is 0.
constexpr std::string_view kRounded = R"(program "rounded" stage imported {
  symbol n bound 1..*
  module @main(%a: bf16[n, 37], %b: bf16[n, 37], %c: bf16[n, 37]) {
    %s = add(%a, %b)
    %u = cast(%s) {to = f32}
    %v = cast(%a) {to = f32}
    %w = sub(%u, %v)
    %m = mul(%c, %c)
    %k = cast(%m) {to = bool}
    %l = cast(%k) {to = f32}
    %y = add(%w, %l)
    return %y as "y"
  }
})";

TEST(Elementwise, CastsReadRoundedValues) {
  std::vector<Box> inputs;
  for (const double value : {1.0, 0x1p-9, 0x1p-70}) {
    Tensor tensor(ElementType::bf16, {5, 37});
    for (int64_t i = 0; i < tensor.count(); ++i) {
      store_double(ElementType::bf16, tensor.data(), i, value);
    }
    inputs.emplace_back(std::move(tensor));
  }
  for (const bool refused : {false, true}) {
    const auto plan = compile(parse_program(kRounded), {.target = find_target("cpu")});
    ASSERT_EQ(plan->modules.front().launches.size(), 3U);
    EXPECT_EQ(plan->modules.front().launches.back().kernel->name(),
              "cpu.cast+cast+sub+cast+cast+add");
    Session session(plan);
    refuse_code_memory(refused);
    const std::vector<Box> got = session.run(inputs);
    refuse_code_memory(false);
    const Tensor& y = got.at(0).tensor();
    ASSERT_EQ(y.count(), 185);
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_EQ(load_double(ElementType::f32, y.data(), i), 0) << i;
    }
  }
}

constexpr std::string_view kRows = R"(program "rows" stage imported {
  module @main(%x: u8[3, 5, 77], %g: f32[77], %b: f32[77]) {
    %scale = literal f32[] {0.05}
    %small = literal f32[] {0.004}
    %zero = literal u8[] {100}
    %none = literal u8[] {0}
    %d = dequantize_linear(%x, %scale, %zero)
    %s = softmax(%d)
    %p = quantize_linear(%s, %small, %none)
    %n, %mean, %inverse = layer_normalization(%d, %g, %b)
    %q = quantize_linear(%n, %scale, %zero)
    return %p as "p", %q as "q"
  }
})";

TEST(GeneratedRows, AreWithinOneStepOfTheReference) {
  Tensor x(ElementType::u8, {3, 5, 77});
  for (int64_t i = 0; i < x.count(); ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(i * i + i / 7);
  const Tensor g = counted({77}), b = counted({77});
  const auto run = [&](const char* target) {
    Session session(compile(parse_program(kRows), {.target = find_target(target)}));
    return session.run(std::vector<Box>{Box{x}, Box{g}, Box{b}});
  };
  const auto expected = run("ref");
  for (const bool refused : {false, true}) {
    refuse_code_memory(refused);
    const auto got = run("cpu");
    refuse_code_memory(false);
    for (size_t result = 0; result < 2; ++result) {
      const Tensor &a = got.at(result).tensor(), &e = expected.at(result).tensor();
      ASSERT_EQ(a.count(), x.count());
      for (int64_t i = 0; i < a.count(); ++i) {
        ASSERT_NEAR(a.as<uint8_t>()[i], e.as<uint8_t>()[i], 1) << "element " << i;
      }
    }
  }
}

// Two regions of rows with elementwise steps, and softmax of other axes than the last.
constexpr std::string_view kSteps = R"(program "steps" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 33, 40], %skip: f32[n, 33, 40], %g: f32[40], %w: f32[33, 1]) {
    %sum = add(%x, %skip)
    %norm = rms_normalization(%sum, %g)
    %gate = tanh(%norm)
    %a = mul(%gate, %sum)
    %t = transpose(%x) {permutation = [2, 0, 1]}
    %minus = neg(%t)
    %b = softmax(%minus)
    %c = softmax(%x) {axis = 0}
    %weighted = mul(%skip, %w)
    %log = log_softmax(%weighted) {axis = 1}
    %d = mul(%log, %w)
    return %a as "a", %b as "b", %c as "c", %d as "d"
  }
})";

TEST(GeneratedRows, TakeElementwiseStepsAndAnyAxis) {
  const Tensor x = counted({3, 33, 40}), skip = counted({3, 33, 40}), g = counted({40}),
               w = counted({33, 1});
  const auto run = [&](const char* target, size_t launches) {
    const auto plan = compile(parse_program(kSteps), {.target = find_target(target)});
    size_t computed = 0;
    for (const Launch& launch : plan->modules.front().launches) {
      const bool runs = launch.kind == LaunchKind::kernel && launch.kernel != nullptr;
      computed += runs && launch.kernel->name().starts_with("cpu.") ? 1 : 0;
    }
    EXPECT_EQ(computed, launches);
    return Session(plan).run(std::vector<Box>{Box{x}, Box{skip}, Box{g}, Box{w}});
  };
  const auto expected = run("ref", 0);
  for (const bool refused : {false, true}) {
    refuse_code_memory(refused);
    const auto got = run("cpu", 6);
    refuse_code_memory(false);
    for (size_t result = 0; result < 4; ++result) {
      const Tensor a = got.at(result).tensor().dense(), e = expected.at(result).tensor().dense();
      ASSERT_EQ(a.count(), x.count());
      for (int64_t i = 0; i < a.count(); ++i) {
        ASSERT_NEAR(a.as<float>()[i], e.as<float>()[i], 2e-5) << "result " << result << ", " << i;
      }
    }
  }
}

TEST(Cast, HasTheBitsOfConvertForAllPairsOfTypes) {
  constexpr std::array kElements{
      ElementType::f32, ElementType::f16, ElementType::bf16,   ElementType::f64, ElementType::i8,
      ElementType::u8,  ElementType::i16, ElementType::u16,    ElementType::i32, ElementType::u32,
      ElementType::i64, ElementType::u64, ElementType::boolean};
  constexpr int64_t kCount = 301;
  std::mt19937 random(1);
  for (const ElementType from : kElements) {
    Tensor x(from, {kCount});
    for (int64_t i = 0; i < kCount; ++i) {
      const double value = std::ldexp(static_cast<double>(random() % 4001) - 2000,
                                      static_cast<int>(random() % 60) - 20);
      is_floating(from) ? store_double(from, x.data(), i, i % 50 == 0 ? NAN : value)
                        : store_int(from, x.data(), i, static_cast<int64_t>(value) * 77);
    }
    for (const ElementType to : kElements) {
      const std::string text = fmt::format(
          "program \"cast\" stage imported {{\n module @main(%x: {}[{}]) {{\n"
          "  %y = cast(%x) {{to = {}}}\n  return %y as \"y\"\n }}\n}}",
          to_string(from), kCount, to_string(to));
      Session session(compile(parse_program(text), {.target = find_target("cpu")}));
      const Tensor got = session.run(std::vector<Box>{Box{x}}).at(0).tensor();
      Tensor expected(to, {kCount});
      convert(to, expected.data(), from, x.data(), kCount);
      const auto bytes = static_cast<size_t>(bytes_for(to, kCount));
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), bytes), 0)
          << to_string(from) << " to " << to_string(to);
    }
  }
}

}  // namespace
}  // namespace lathe
#endif
