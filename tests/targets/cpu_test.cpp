// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include "targets/cpu/target.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "runtime/verification.h"
#include "targets/compile.h"
#include "targets/cpu/weight_store.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// A matmul with constant weights, one of two operands, one without a CPU kernel, and a convolution.
constexpr std::string_view kMixed = R"(program "mixed" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 3], %z: f32[3, n], %i: i32[n, 3], %p: f32[1, 1, 4, 4]) {
    %w = literal f32[3, 2] {1, 2, 3, 4, 5, 6}
    %a = matmul(%x, %w)
    %b = matmul(%x, %z)
    %c = matmul(%i, %j)
    %k = literal f32[2, 1, 3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1}
    %d = conv(%p, %k)
    return %a as "a", %b as "b", %c as "c", %d as "d"
  }
})";

std::unique_ptr<Program> mixed() {
  std::string text(kMixed);
  const std::string literal = "    %j = literal i32[3, 1] {1, 2, 3}\n";
  text.insert(text.find("    %c ="), literal);
  return parse_program(text);
}

std::shared_ptr<const Plan> compiled(std::string_view target) {
  return compile(mixed(), {.target = find_target(target)});
}

const Launch& launch_of(const Plan& plan, std::string_view result) {
  for (const Launch& launch : plan.modules.front().launches) {
    if (launch.instruction != nullptr && launch.instruction->result()->name() == result) {
      return launch;
    }
  }
  throw std::runtime_error("no such result");
}

Tensor counted(Dims dims) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.as<float>()[i] = static_cast<float>(i % 7);
  return tensor;
}

std::vector<Box> inputs() {
  Tensor integers(ElementType::i32, {2, 3});
  for (int i = 0; i < 6; ++i) integers.as<int32_t>()[i] = i;
  return {Box{counted({2, 3})}, Box{counted({3, 2})}, Box{integers}, Box{counted({1, 1, 4, 4})}};
}

TEST(CpuTarget, ReportsWhyAnInstructionRunsOnTheReference) {
  const auto plan = compiled("cpu");
  EXPECT_EQ(launch_of(*plan, "a").kernel->name(), "cpu.matmul");
  EXPECT_NE(launch_of(*plan, "a").kernel->detail().find("packed"), std::string::npos);
  EXPECT_NE(launch_of(*plan, "b").kernel->detail().find("packs b at run time"), std::string::npos);
  EXPECT_EQ(launch_of(*plan, "c").kernel->name(), "ref.matmul");
  EXPECT_EQ(launch_of(*plan, "c").reason, "no GEMM kernel for i32 and i32");
  EXPECT_EQ(launch_of(*plan, "d").kernel->name(), "cpu.conv");
  EXPECT_EQ(launch_of(*compiled("ref"), "a").kernel->name(), "ref.matmul");
}

TEST(CpuTarget, ReportsAttentionThatRunsOrMayRunOnTheReference) {
  const auto plan = compile(parse_program(R"(program "heads" stage imported {
  symbol n bound 1..*
  symbol d bound 1..*
  module @main(%q: f32[1, 2, n, 64], %long: f32[1, 1, n, 1025], %any: f32[1, 1, n, d], %half: f16[1, 2, n, 64],
               %cos: f32[8, 32], %sin: f32[8, 32], %at: i64[1, n]) {
    %a, %ak, %av, %as = attention(%q, %q, %q)
    %b, %bk, %bv, %bs = attention(%long, %long, %long)
    %c, %ck, %cv, %cs = attention(%any, %any, %any)
    %e, %ek, %ev, %es = attention(%q, %q, %half)
    %r = rotary_embedding(%q, %cos, %sin, %at)
    return %a as "a", %b as "b", %c as "c", %e as "e", %r as "r"
  }
})"),
                            {.target = find_target("cpu")});
  EXPECT_EQ(launch_of(*plan, "a").kernel->name(), "cpu.attention");
  EXPECT_EQ(launch_of(*plan, "a").kernel->detail().find("ref"), std::string::npos);
  EXPECT_EQ(launch_of(*plan, "b").kernel->name(), "ref.attention");
  EXPECT_EQ(launch_of(*plan, "b").reason, "head sizes 1025 and 1025, supported: 1 to 1024");
  EXPECT_EQ(launch_of(*plan, "c").kernel->name(), "cpu.attention");
  EXPECT_NE(launch_of(*plan, "c")
                .kernel->detail()
                .find("; may fall back to ref if the head size exceeds 1024"),
            std::string::npos);
  EXPECT_EQ(launch_of(*plan, "e").reason, "keys are f32 and values f16");
  EXPECT_EQ(launch_of(*plan, "r").kernel->name(), "cpu.rotary_embedding");
}

TEST(CpuTarget, AgreesWithTheReferenceOnEveryThreadCount) {
  Session reference(compiled("ref"));
  const std::vector<Box> given = inputs();
  const std::vector<Box> expected = reference.run(given);
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Session session(compiled("cpu"), {.pool = &pool, .warn = {}});
    const std::vector<Box> found = session.run(given);
    for (size_t i = 0; i < found.size(); ++i) {
      // Small integers: every order of summation is exact.
      EXPECT_TRUE(identical(found[i].tensor(), expected[i].tensor())) << "result " << i;
    }
  }
}

TEST(CpuTarget, PacksWeightsOnceForAllPlans) {
  const cpu::WeightStoreSize before = cpu::weight_store_size();
  const auto first = compiled("cpu");
  const cpu::WeightStoreSize one = cpu::weight_store_size();
  EXPECT_EQ(one.entries, before.entries + 2);
  const auto second = compiled("cpu");
  EXPECT_EQ(cpu::weight_store_size().entries, one.entries);
  EXPECT_EQ(cpu::weight_store_size().bytes, one.bytes);
  {
    auto gone = compiled("cpu");
    gone.reset();
  }
  EXPECT_EQ(cpu::weight_store_size().bytes, one.bytes);
}

// An image of unknown height and width: the weights are packed with the plan, not by its runs.
TEST(CpuTarget, PacksWeightsOfImagesOfUnknownSizeWithThePlan) {
  const auto plan_for = [](const char* target) {
    std::string weights = "0.5";
    for (int i = 1; i < 8 * 8; ++i) weights += fmt::format(", {}", (i % 13 - 6) / 8.0);
    return compile(parse_program(fmt::format(R"(program "image" stage imported {{
  symbol h bound 1..*
  symbol w bound 1..*
  module @main(%x: f32[1, 8, h, w]) {{
    %k = literal f32[8, 8, 1, 1] {{{}}}
    %y = conv(%x, %k)
    return %y as "y"
  }}
}})",
                                             weights)),
                   {.target = find_target(target)});
  };
  const int64_t before = cpu::weights_packed();
  const auto plan = plan_for("cpu");
  EXPECT_EQ(cpu::weights_packed(), before + 1);
  Session session(plan), reference(plan_for("ref"));
  for (const int64_t extent : {1, 9, 40, 9}) {
    Tensor x(ElementType::f32, {1, 8, extent, extent + 3});
    for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i % 19 - 9) / 4;
    const Tensor y = session.run(std::vector<Box>{Box{x}}).at(0).tensor();
    const Tensor expected = reference.run(std::vector<Box>{Box{x}}).at(0).tensor();
    ASSERT_EQ(y.count(), x.count());
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(y.as<float>()[i], expected.as<float>()[i], 1e-4) << extent << ", element " << i;
    }
  }
  EXPECT_EQ(cpu::weights_packed(), before + 1);
}

// Windows longer than the extents for which weights of images of unknown size are packed.
TEST(CpuTarget, ConvolvesByWindowsBeyondUsualExtents) {
  const auto plan_for = [](const char* target) {
    std::string weights = "0.5";
    for (int i = 1; i < 2 * 400; ++i) weights += fmt::format(", {}", (i % 13 - 6) / 8.0);
    return compile(parse_program(fmt::format(R"(program "frames" stage imported {{
  symbol t bound 1..*
  module @main(%x: f32[1, 1, t]) {{
    %k = literal f32[2, 1, 400] {{{}}}
    %y = conv(%x, %k) {{strides = [160]}}
    return %y as "y"
  }}
}})",
                                             weights)),
                   {.target = find_target(target)});
  };
  Session session(plan_for("cpu"));
  Session reference(plan_for("ref"));
  for (const int64_t extent : {1600, 400}) {
    Tensor x(ElementType::f32, {1, 1, extent});
    for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i % 19 - 9) / 4;
    const Tensor y = session.run(std::vector<Box>{Box{x}}).at(0).tensor();
    const Tensor expected = reference.run(std::vector<Box>{Box{x}}).at(0).tensor();
    ASSERT_EQ(y.count(), 2 * ((extent - 400) / 160 + 1));
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(y.as<float>()[i], expected.as<float>()[i], 1e-3) << extent << ", element " << i;
    }
  }
}

// Weights are packed by the channels that they have, once these are known.
TEST(CpuTarget, ConvolvesImagesOfUnknownChannels) {
  const auto plan_for = [](const char* target) {
    return compile(parse_program(R"(program "image" stage imported {
  symbol c bound 1..*
  symbol h bound 1..*
  module @main(%x: f32[1, c, h, h]) {
    %k = literal f32[2, 3, 1, 1] {0.5, -1, 2, 0.25, 3, -0.5}
    %y = conv(%x, %k)
    return %y as "y"
  }
})"),
                   {.target = find_target(target)});
  };
  const int64_t before = cpu::weights_packed();
  Session session(plan_for("cpu"));
  Session reference(plan_for("ref"));
  EXPECT_EQ(cpu::weights_packed(), before);
  Tensor x(ElementType::f32, {1, 3, 5, 5});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i % 19 - 9) / 4;
  for (int run = 0; run < 2; ++run) {
    const Tensor y = session.run(std::vector<Box>{Box{x}}).at(0).tensor();
    const Tensor expected = reference.run(std::vector<Box>{Box{x}}).at(0).tensor();
    ASSERT_EQ(y.count(), 2 * 5 * 5);
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(y.as<float>()[i], expected.as<float>()[i], 1e-5) << "element " << i;
    }
    EXPECT_EQ(cpu::weights_packed(), before + 1);
  }
}

// Runs the program on `cpu` and on `ref` with inputs of these dims, one run after another in one
// session.
void expect_like_reference(const char* program,
                           const std::vector<std::vector<std::vector<int64_t>>>& runs) {
  Session session(compile(parse_program(program), {.target = find_target("cpu")}));
  Session reference(compile(parse_program(program), {.target = find_target("ref")}));
  for (const auto& dims : runs) {
    std::vector<Box> inputs;
    for (size_t i = 0; i < dims.size(); ++i) {
      Tensor x(ElementType::f32, dims[i]);
      for (int64_t j = 0; j < x.count(); ++j) {
        x.as<float>()[j] = static_cast<float>((j * 7 + static_cast<int64_t>(i)) % 19 - 9) / 16;
      }
      inputs.emplace_back(std::move(x));
    }
    const Tensor y = session.run(inputs).at(0).tensor();
    const Tensor expected = reference.run(inputs).at(0).tensor();
    ASSERT_EQ(y.count(), expected.count());
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(y.as<float>()[i], expected.as<float>()[i], 1e-3) << "element " << i;
    }
  }
}

// Workspaces grow with images that are larger than those of the run before, although all between
// the graph's inputs and outputs stays as small.
TEST(CpuTarget, ConvolvesLargerImagesThanBefore) {
  expect_like_reference(R"(program "gated" stage imported {
  symbol n bound 1..*
  symbol h bound 1..*
  symbol w bound 1..*
  module @main(%x: f32[n, 16, h, w], %f: f32[n, 16, 1, 1], %k: f32[8, 16, 1, 1]) {
    %g = sigmoid(%f)
    %m = mul(%x, %g)
    %y = conv(%m, %k)
    return %y as "y"
  }
})",
                        {{{1, 16, 1, 8}, {1, 16, 1, 1}, {8, 16, 1, 1}},
                         {{1, 16, 8, 8}, {1, 16, 1, 1}, {8, 16, 1, 1}},
                         {{2, 16, 33, 31}, {2, 16, 1, 1}, {8, 16, 1, 1}}});
}

// Weights that the graph receives may have other channels and windows in each run.
TEST(CpuTarget, ConvolvesWithOtherWeightsInEachRun) {
  expect_like_reference(R"(program "weights" stage imported {
  symbol n bound 1..*
  symbol c bound 1..*
  symbol h bound 1..*
  symbol w bound 1..*
  symbol m bound 1..*
  symbol k bound 1..*
  module @main(%x: f32[n, c, h, w], %k: f32[m, c, k, k]) {
    %y = conv(%x, %k) {auto_pad = "SAME_UPPER"}
    return %y as "y"
  }
})",
                        {{{1, 4, 9, 9}, {8, 4, 3, 3}},
                         {{1, 4, 9, 9}, {8, 4, 5, 5}},
                         {{1, 12, 9, 9}, {8, 12, 3, 3}},
                         {{1, 64, 9, 9}, {64, 64, 3, 3}}});
}

TEST(CpuTarget, VerifiesEachKernel) {
  VerificationOptions options;
  options.compile.target = find_target("cpu");
  const std::vector<VerificationCase> cases{{"n = 2", {inputs()}}};
  const VerificationReport report = verify_program(*mixed(), cases, options);
  EXPECT_TRUE(report.passed());
  ASSERT_GE(report.stages.size(), 2u);
  const StageReport& kernels = report.stages[report.stages.size() - 2];
  EXPECT_EQ(kernels.name, "cpu, each kernel");
  ASSERT_EQ(kernels.values.size(), 2u);
  EXPECT_EQ(kernels.values[0].name, "cpu.conv");
  EXPECT_EQ(kernels.values[1].name, "cpu.matmul");
}

// Means of channels first (the input), of channels last (a convolution's result), and of a value
// that the epilogue reads again.
constexpr std::string_view kMeans = R"(program "means" stage imported {
  symbol n bound 1..*
  module @main(%x: T[n, 3, 5, 4], %k: T[6, 3, 3, 3], %w: T[4, 3, 1, 1], %b: T[4], %v: T[6, 6, 1, 1], %z: T[n, 3, 1, 1], %u: T[3, 3, 1, 1]) {
    %m = global_average_pool(%x)
    %c = conv(%m, %w, %b)
    %first = relu(%c)
    %d = conv(%x, %k)
    %o = global_average_pool(%d)
    %last = conv(%o, %v)
    %p = global_average_pool(%z)
    %q = conv(%p, %u)
    %again = add(%q, %z)
    return %first as "first", %last as "last", %again as "again"
  }
})";

TEST(CpuTarget, AConvolutionTakesTheMeanThatItReads) {
  for (const std::string_view type : {"f32", "bf16"}) {
    std::string text(kMeans);
    for (size_t at = 0; (at = text.find(": T[", at)) != std::string::npos;) {
      text.replace(at + 2, 1, type);
    }
    const auto plan = compile(parse_program(text), {.target = find_target("cpu")});
    const auto reference = compile(parse_program(text), {.target = find_target("ref")});
    EXPECT_EQ(launch_of(*plan, "first").kernel->name(), "cpu.global_average_pool+conv+relu");
    EXPECT_EQ(launch_of(*plan, "last").kernel->name(), "cpu.global_average_pool+conv");
    EXPECT_EQ(launch_of(*plan, "again").kernel->name(), "cpu.global_average_pool+conv+add");
    ThreadPool pool(2);
    Session session(plan, {.pool = &pool, .warn = {}});
    Session expected_session(reference);
    for (const int64_t n : {1, 3}) {
      std::vector<Box> given;
      const std::vector<Dims> dims{{n, 3, 5, 4}, {6, 3, 3, 3}, {4, 3, 1, 1}, {4},
                                   {6, 6, 1, 1}, {n, 3, 1, 1}, {3, 3, 1, 1}};
      for (const Dims& each : dims) {
        Tensor tensor(type == "f32" ? ElementType::f32 : ElementType::bf16, each);
        const Tensor floats = counted(each);
        convert(tensor.type(), tensor.data(), ElementType::f32, floats.data(), tensor.count());
        given.push_back(Box{std::move(tensor)});
      }
      const std::vector<Box> expected = expected_session.run(given);
      const std::vector<Box> found = session.run(given);
      for (size_t i = 0; i < found.size(); ++i) {
        const Tensor &a = found[i].tensor(), &b = expected[i].tensor();
        ASSERT_EQ(a.dims(), b.dims());
        std::vector<float> x(static_cast<size_t>(a.count())), y(x.size());
        convert(ElementType::f32, x.data(), a.type(), a.data(), a.count());
        convert(ElementType::f32, y.data(), b.type(), b.data(), b.count());
        for (size_t j = 0; j < x.size(); ++j) {
          EXPECT_NEAR(x[j], y[j], (type == "f32" ? 1e-5 : 1e-2) * std::max(1.0F, std::abs(y[j])));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe
#endif
