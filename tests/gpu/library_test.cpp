// SPDX-License-Identifier: MIT
// What the target requests of cuBLASLt, by a library of plain loops in its place.
#include <gtest/gtest.h>

#include "base/os_environment.h"
#include "base/os_library.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/libraries/vendor_library.h"
#include "targets/gpu/settings.h"
#include "targets/gpu/target.h"
#include "tensor/convert.h"
#include "tests/support/op_runner.h"

namespace lathe::gpu {
namespace {

const std::shared_ptr<const Target>& target() {
  static const auto& made = *new std::shared_ptr<const Target>([] {
    set_settings({.libraries = FAKE_LIBRARIES ":" + settings().libraries});
    return std::make_shared<GpuTarget>("gpu:host", make_host_driver({.libraries = true}), 0,
                                       CodeStore::default_folder());
  }());
  return made;
}

// The library in place of the vendor's computes on the host alone.
class GpuLibrary : public testing::Test {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  }
};

TEST_F(GpuLibrary, GivesTheRowsOfProducts) {
  for (const char* op : {"matmul", "gemm"}) {
    for (const test::OpRow& row : test::read_op_rows(fmt::format("tests/ops/{}.test", op))) {
      SCOPED_TRACE(fmt::format("{}:{}", row.file, row.line));
      test::run_op_row_on(row, target());
    }
  }
}

Tensor numbers(Dims dims, int seed) {
  Tensor wide(ElementType::f32, std::move(dims));
  uint32_t state = 12345U + static_cast<uint32_t>(seed);
  for (float& x : wide.elements<float>()) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
  }
  return wide;
}

struct Case {
  Dims a;
  Dims b;
  bool transposed = false;  // b
  bool bias = false;
  bool residual = false;
  int activation = 0;  // 1: relu, 2: gelu by tanh, 3: gelu by erf
};

std::unique_ptr<Program> program_of(const Case& c) {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  const auto type = [](const Dims& dims) {
    return Type::tensor(ElementType::f32, std::vector<Dim>(dims.begin(), dims.end()));
  };
  Value* a = main.add_parameter(type(c.a), "a");
  Value* b = main.add_parameter(type(c.b), "b");
  Builder builder(main);
  Value* w = b;
  if (c.transposed) {
    Integers permutation;
    for (size_t axis = 0; axis < c.b.size(); ++axis) permutation.push_back(static_cast<int>(axis));
    std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
    w = builder(ops::transpose, {b}, {{"permutation", permutation}});
  }
  Value* y = builder(ops::matmul, {a, w});
  const Type result = y->type();
  if (c.bias) {
    Value* bias = main.add_parameter(Type::tensor(ElementType::f32, {result.dims->back()}), "bias");
    y = builder(ops::add, {y, bias});
  }
  if (c.residual) {
    Value* residual = main.add_parameter(result, "residual");
    y = builder(ops::add, {residual, y});
  }
  if (c.activation == 1) y = builder(ops::relu, {y});
  if (c.activation > 1) {
    y = builder(ops::gelu, {y},
                {{"approximate", std::string(c.activation == 2 ? "tanh" : "none")}});
  }
  main.set_results({y}, {"y"});
  return made;
}

TEST_F(GpuLibrary, AgreesWithRef) {
  const std::vector<Case> cases{
      {.a = {5, 7}, .b = {7, 9}},
      {.a = {5, 7}, .b = {9, 7}, .transposed = true, .bias = true},
      {.a = {2, 5, 7}, .b = {7, 9}, .bias = true, .activation = 1},
      {.a = {2, 5, 7}, .b = {7, 9}, .bias = true, .residual = true},
      {.a = {2, 5, 7}, .b = {7, 9}, .residual = true, .activation = 2},
      {.a = {2, 5, 7}, .b = {7, 9}, .bias = true, .activation = 3},
      {.a = {2, 3, 4, 6}, .b = {2, 3, 6, 5}},
      {.a = {2, 3, 4, 6}, .b = {2, 3, 5, 6}, .transposed = true, .activation = 1},
      {.a = {2, 3, 4, 6}, .b = {1, 3, 6, 5}, .bias = true},
      {.a = {1, 6}, .b = {6, 5}, .bias = true, .activation = 1},
      {.a = {4, 6}, .b = {6, 1}, .residual = true},
      {.a = {4, 1}, .b = {1, 3}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    Session expected(compile(program_of(cases[i]), {.target = find_target("ref")}));
    Session found(compile(program_of(cases[i]), {.target = target()}));
    std::vector<Box> inputs;
    for (const auto& parameter : expected.plan().program->main().parameters()) {
      Dims dims;
      for (const Dim& dim : *parameter->type().dims) dims.push_back(*dim.constant());
      inputs.push_back(Box{numbers(dims, static_cast<int>(inputs.size()))});
    }
    const Tensor x = expected.run(inputs)[0].tensor();
    const Tensor y = found.run(inputs)[0].tensor();
    ASSERT_EQ(x.dims(), y.dims());
    for (int64_t at = 0; at < x.count(); ++at) {
      EXPECT_NEAR(x.as<float>()[at], y.as<float>()[at], 2e-6) << at;
    }
    bool named = false;
    for (const Launch& launch : found.plan().modules[0].launches) {
      named |= launch.kernel != nullptr && launch.kernel->detail() == "cuBLASLt";
    }
    EXPECT_TRUE(named);
  }
}

// Prompts of ever new lengths need few algorithms; 77 rows refuse that of 96.
TEST_F(GpuLibrary, SharesAlgorithmsAmongNumbersOfRows) {
  const std::shared_ptr<const DynamicLibrary> library =
      DynamicLibrary::open(FAKE_LIBRARIES "/libcublasLt.so");
  ASSERT_NE(library, nullptr);
  const auto counter = [&](const char* name) {
    return reinterpret_cast<int64_t (*)()>(library->symbol(name));
  };
  const auto asked = counter("fake_algorithms_asked");
  const auto asked_here = counter("fake_algorithms_asked_here");
  constexpr const char* kText =
      "program \"rows\" stage imported {\n  symbol m bound 1..*\n  module @main(%a: f32[m, 12], "
      "%b: f32[12, 5]) {\n    %y = matmul(%a, %b)\n    return %y as \"y\"\n  }\n}";
  Session expected(compile(parse_program(kText), {.target = find_target("ref")}));
  Session found(compile(parse_program(kText), {.target = target()}));
  CodeStore& threads = static_cast<const GpuTarget&>(*target()).gpu_device().code();
  const auto asked_for = [&](int64_t rows) {
    const std::vector<Box> inputs{Box{numbers({rows, 12}, 1)}, Box{numbers({12, 5}, 2)}};
    const int64_t before = asked_here();
    const Tensor y = found.run(inputs)[0].tensor();
    const Tensor x = expected.run(inputs)[0].tensor();
    for (int64_t at = 0; at < x.count(); ++at) {
      EXPECT_NEAR(x.as<float>()[at], y.as<float>()[at], 2e-6) << rows << ": " << at;
    }
    return asked_here() - before;
  };
  threads.wait_idle();
  const int64_t at_first = asked();
  const auto computed = counter("fake_products_computed");
  const int64_t computed_at_first = computed();
  EXPECT_EQ(asked_for(70), 1);
  // Those of 16, 24 … 64 and 96, 128 … 4,096 rows follow on another thread.
  threads.wait_idle();
  EXPECT_EQ(asked() - at_first, 7 + 12);
  // Small ones load their kernels.
  EXPECT_EQ(computed() - computed_at_first, 1 + 18);
  EXPECT_EQ(counter("fake_handles_shared")(), 0);
  for (const int64_t rows : {71, 90, 96, 65, 97, 128, 500, 9, 33, 64}) {
    EXPECT_EQ(asked_for(rows), 0) << rows;
  }
  EXPECT_EQ(asked_for(77), 1);
  EXPECT_EQ(asked_for(77), 0);
  EXPECT_EQ(asked_for(5), 1);
  EXPECT_EQ(asked_for(6), 1);
}

// What follows a product whose sums the library leaves in the result.
TEST_F(GpuLibrary, LeavesEpiloguesThatAgreeWithRef) {
  const std::pair<std::string_view, double> types[] = {
      {"f32", 2e-6}, {"f16", 2e-3}, {"bf16", 1.6e-2}};
  const std::string_view bodies[] = {
      "%p = matmul(%a, %b)\n    %q = add(%p, %bias)\n    %y = gelu(%q)",
      "%p = matmul(%a, %b)\n    %q = mul(%p, %rows)\n    %r = add(%q, %all)\n    %y = sigmoid(%r)",
      "%p = matmul(%a, %b)\n    %q = matmul(%a, %c)\n    %y = swiglu(%p, %q)"};
  for (const auto& [type, tolerance] : types) {
    for (const std::string_view body : bodies) {
      for (const int columns : {24, 20, 7}) {
        const std::string text = fmt::format(
            "program \"epilogue\" stage imported {{\n  symbol m bound 1..*\n  module @main(%a: "
            "{0}[3, m, 8], %b: {0}[8, {1}], %c: {0}[8, {1}], %bias: {0}[{1}], %rows: {0}[3, m, 1], "
            "%all: {0}[3, m, {1}]) {{\n    {2}\n    return %y as \"y\"\n  }}\n}}",
            type, columns, body);
        SCOPED_TRACE(text);
        Session reference(compile(parse_program(text), {.target = find_target("ref")}));
        Session session(compile(parse_program(text), {.target = target()}));
        for (const int64_t m : {2, 45}) {
          SCOPED_TRACE(m);
          std::vector<Box> inputs;
          for (const auto& parameter : reference.plan().program->main().parameters()) {
            Dims dims;
            for (const Dim& dim : *parameter->type().dims) {
              dims.push_back(dim.constant().value_or(m));
            }
            const Tensor wide = numbers(dims, static_cast<int>(inputs.size()));
            const Tensor given(parameter->type().element, dims);
            convert(given.type(), given.data(), wide.type(), wide.data(), wide.count());
            inputs.push_back(Box{given});
          }
          const Tensor expected = reference.run(inputs)[0].tensor();
          const Tensor found = session.run(inputs)[0].tensor();
          ASSERT_EQ(expected.dims(), found.dims());
          for (int64_t at = 0; at < expected.count(); ++at) {
            ASSERT_NEAR(load_double(expected.type(), expected.data(), at),
                        load_double(found.type(), found.data(), at), tolerance)
                << at;
          }
        }
      }
    }
  }
}

Tensor codes(Dims dims) {
  Tensor tensor(ElementType::u8, std::move(dims));
  uint8_t code = 7;
  for (uint8_t& x : tensor.elements<uint8_t>()) x = code = static_cast<uint8_t>(code * 37 + 11);
  return tensor;
}

void expect_ref(const std::string& text, const std::vector<Box>& inputs) {
  Session expected(compile(parse_program(text), {.target = find_target("ref")}));
  Session found(compile(parse_program(text), {.target = target()}));
  const Tensor x = expected.run(inputs)[0].tensor();
  const Tensor y = found.run(inputs)[0].tensor();
  ASSERT_EQ(x.dims(), y.dims());
  for (int64_t at = 0; at < x.count(); ++at) {
    const float wanted = x.as<float>()[at];
    EXPECT_NEAR(wanted, y.as<float>()[at], 2e-5F * std::max(1.0F, std::abs(wanted))) << at;
  }
}

// Products of many rows multiply unpacked weights.
TEST_F(GpuLibrary, MultipliesUnpackedWeights) {
  constexpr int64_t kRows = 70;
  for (const int64_t bits : {2, 4, 8}) {
    SCOPED_TRACE(bits);
    expect_ref(
        fmt::format("program \"unpacked\" stage imported {{\n  module @main(%a: f32[{}, 70], "
                    "%codes: u8[9, 3, {}], %scales: f32[9, 3], %zeros: u8[9, {}], "
                    "%bias: f32[9]) {{\n    %y = matmul_n_bits(%a, %codes, %scales, %zeros, "
                    "_, %bias) {{k = 70, n = 9, bits = {}, block_size = 32}}\n"
                    "    return %y as \"y\"\n  }}\n}}",
                    kRows, 4 * bits, (3 * bits + 7) / 8, bits),
        {Box{numbers({kRows, 70}, 1)}, Box{codes({9, 3, 4 * bits})}, Box{numbers({9, 3}, 2)},
         Box{codes({9, (3 * bits + 7) / 8})}, Box{numbers({9}, 3)}});
  }
}

// Normalised rows, two products and a residual, with one row and with many.
TEST_F(GpuLibrary, MultipliesWhatKernelsFuse) {
  constexpr const char* kProducts[] = {
      "    %gate = matmul_n_bits(%n, %wg, %s) {k = 64, n = 9, bits = 4, block_size = 32}\n"
      "    %up = matmul_n_bits(%n, %wu, %s) {k = 64, n = 9, bits = 4, block_size = 32}\n",
      "    %gate = matmul(%n, %wg)\n    %up = matmul(%n, %wu)\n"};
  for (const bool coded : {true, false}) {
    for (const int64_t rows : {1, 70}) {
      SCOPED_TRACE(fmt::format("{} rows, {}", rows, coded ? "codes" : "floats"));
      const std::string weights = coded ? "u8[9, 2, 16]" : "f32[64, 9]";
      const auto made = [&](int seed) {
        return coded ? codes({9, 2, 16}) : numbers({64, 9}, seed);
      };
      expect_ref(
          fmt::format(
              "program \"block\" stage imported {{\n  module @main(%x: f32[{0}, 64], %g: f32[64], "
              "%wg: {1}, %wu: {1}, %s: f32[9, 2], %down: f32[9, 64]) {{\n"
              "    %n = rms_normalization(%x, %g)\n{2}    %h = swiglu(%gate, %up)\n"
              "    %d = matmul(%h, %down)\n    %y = add(%x, %d)\n    return %y as \"y\"\n  }}\n}}",
              rows, weights, kProducts[coded ? 0 : 1]),
          {Box{numbers({rows, 64}, 1)}, Box{numbers({64}, 2)}, Box{made(3)}, Box{made(4)},
           Box{numbers({9, 2}, 5)}, Box{numbers({9, 64}, 6)}});
    }
  }
}

TEST_F(GpuLibrary, AreDescribedWithTheirPathOrWhatIsMissing) {
  target();  // sets the folders
  EXPECT_EQ(describe(VendorLibrary::cublaslt),
            "cuBLASLt 13.0.0, " FAKE_LIBRARIES "/libcublasLt.so");
  const auto opened = open_vendor_library(VendorLibrary::cudnn, nullptr);
  const std::string text = describe(VendorLibrary::cudnn);
  if (opened != nullptr) {  // this machine has one
    EXPECT_TRUE(text.starts_with("cuDNN ") && text.ends_with(", " + opened->path())) << text;
    return;
  }
  EXPECT_EQ(text,
            "cuDNN is missing: Lathe's own kernels convolve, which is slower; install PyPI's "
            "nvidia-cudnn-cu13");
}

TEST_F(GpuLibrary, WithoutOneThePortableKernelServes) {
  EXPECT_EQ(static_cast<const GpuTarget&>(*target()).gpu_device().libraries().cudnn(), nullptr);
}

}  // namespace
}  // namespace lathe::gpu
