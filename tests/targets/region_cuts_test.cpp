// SPDX-License-Identifier: MIT
// Regions cut in two by tuned choices.
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "import/compiled/compiled_file.h"
#include "ir/compiled_source.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/session.h"
#include "runtime/tune.h"
#include "targets/compile.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "targets/save_program.h"
#include "tensor/convert.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

Tensor numbers(ElementType type, const Dims& dims, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor(type, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double value = is_floating(type) ? (static_cast<double>(random() % 4001) - 2000) / 300
                                           : static_cast<double>(random() % 200);
    store_double(type, tensor.data(), i, random() % 16 == 0 ? 0 : value);
  }
  return tensor;
}

std::unique_ptr<Program> program_of(const std::string& module) {
  return test::parse_with_made("program \"net\" stage imported {\n" + module + "\n}\n",
                               [](ElementType type, Dims dims, uint64_t hash) {
                                 return numbers(type, dims, static_cast<unsigned>(hash));
                               });
}

std::vector<Box> inputs_of(const Program& program) {
  std::vector<Box> inputs;
  for (const auto& input : program.main().parameters()) {
    Dims dims;
    for (const Dim& dim : *input->type().dims) dims.push_back(*dim.constant());
    inputs.emplace_back(numbers(input->type().element, dims, static_cast<unsigned>(inputs.size())));
  }
  return inputs;
}

CompileOptions with(std::shared_ptr<Tuning> tuning, Compute compute = Compute::as_model) {
  CompileOptions options{.target = find_target("cpu"), .compute = compute};
  options.tuning = std::move(tuning);
  return options;
}

std::shared_ptr<Tuning> none() {
  return std::make_shared<Tuning>(tuned_processor(*find_target("cpu")), 1);
}

std::vector<std::string> kernels_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const Launch& launch : plan.modules.front().launches) {
    if (launch.kernel != nullptr && launch.kind == LaunchKind::kernel) {
      names.emplace_back(launch.kernel->name());
    }
  }
  return names;
}

// How many cuts the program's regions have; each has the bits of the whole and more launches.
size_t check_cuts(const std::string& module, Compute compute = Compute::as_model) {
  const std::vector<Box> inputs = inputs_of(*program_of(module));
  const auto whole = none();
  const auto plan = compile(program_of(module), with(whole, compute));
  const std::vector<Box> expected = Session(plan).run(inputs);
  size_t cuts = 0;
  for (const auto& [region, forms] : whole->unknown_forms()) {
    for (size_t form = 1; form < forms.size(); ++form) {
      const auto tuning = none();
      tuning->add(region, forms[form]);
      const auto cut = compile(program_of(module), with(tuning, compute));
      EXPECT_GT(kernels_of(*cut).size(), kernels_of(*plan).size()) << region << ": " << forms[form];
      const std::vector<Box> got = Session(cut).run(inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(identical(got[i].tensor(), expected[i].tensor()))
            << region << ": " << forms[form] << ", result " << i;
      }
      ++cuts;
    }
  }
  return cuts;
}

TEST(RegionCuts, KeepTheBitsOfEpilogues) {
  for (const char* step :
       {"relu(%h)", "leaky_relu(%h)", "sigmoid(%h)", "swish(%h)", "tanh(%h)", "gelu(%h)",
        "gelu(%h) {approximate = \"tanh\"}", "elu(%h)", "hard_sigmoid(%h)", "hard_swish(%h)",
        "exp(%h)", "erf(%h)", "add(%h, %p)", "sub(%h, %p)", "sub(%p, %h)", "mul(%h, %p)",
        "div(%h, %p)", "div(%p, %h)"}) {
    EXPECT_EQ(check_cuts(std::string(R"(module @main(%x: f32[40, 64], %p: f32[40, 96]) {
    %w = literal f32[64, 96] #0000000000000001
    %b = literal f32[96] #0000000000000002
    %z = gemm(%x, %w, %b)
    %h = add(%z, %p)
    %y = )") + step + R"(
    return %y as "y"
  })"),
              1U)
        << step;
  }
}

TEST(RegionCuts, KeepTheBitsOfConvolutions) {
  constexpr std::string_view kConv =
      R"(module @main(%x: f32[1, 16, 12, 12], %r: f32[1, 24, 12, 12]) {
    %k = literal f32[24, 16, 3, 3] #0000000000000001
    %d = literal f32[24, 1, 3, 3] #0000000000000002
    %p = literal f32[16, 24, 1, 1] #0000000000000003
    %s = literal f32[24, 24, 1, 1] #0000000000000004
    %c = conv(%x, %k) {pads = [1, 1, 1, 1]}
    %a = add(%c, %r)
    %b = relu(%a)
    %e = conv(%b, %d) {group = 24, pads = [1, 1, 1, 1]}
    %f = hard_swish(%e)
    %m = global_average_pool(%f)
    %q = conv(%m, %s)
    %g = hard_sigmoid(%q)
    %i = mul(%f, %g)
    %y = conv(%i, %p)
    return %y as "y"
  })";
  EXPECT_GE(check_cuts(std::string(kConv)), 4U);
  EXPECT_EQ(check_cuts(std::string(kConv), Compute::bf16), 0U);  // memory would round
}

TEST(RegionCuts, KeepTheBitsOfElementwiseSteps) {
  EXPECT_EQ(check_cuts(R"(module @main(%x: f32[7, 100], %u: f32[7, 100], %q: u8[7, 100]) {
    %scale = literal f32[] {0.05}
    %zero = literal u8[] {100}
    %d = dequantize_linear(%q, %scale, %zero)
    %a = mul(%x, %u)
    %b = tanh(%a)
    %c = add(%b, %d)
    %e = greater(%c, %x)
    %f = where(%e, %c, %u)
    %y = quantize_linear(%f, %scale, %zero)
    return %y as "y"
  })"),
            1U);
  // Registers do not round, memory would.
  EXPECT_EQ(check_cuts(R"(module @main(%x: bf16[7, 100], %u: bf16[7, 100]) {
    %a = mul(%x, %u)
    %b = tanh(%a)
    %y = add(%b, %u)
    return %y as "y"
  })"),
            0U);
}

TEST(RegionCuts, KeepTheBitsOfRows) {
  EXPECT_EQ(check_cuts(R"(module @main(%x: f32[7, 100], %u: f32[7, 100], %g: f32[100]) {
    %s = add(%x, %u)
    %n = rms_normalization(%s, %g)
    %t = tanh(%n)
    %a = mul(%t, %x)
    %d = sub(%u, %x)
    %e = softmax(%d)
    %b = mul(%e, %u)
    return %a as "a", %b as "b"
  })"),
            4U);
}

TEST(RegionCuts, KeepTheBitsOfTwins) {
  EXPECT_GE(check_cuts(R"(module @main(%x: f32[3, 64]) {
    %w = literal f32[64, 96] #0000000000000001
    %v = literal f32[64, 96] #0000000000000002
    %a = matmul(%x, %w)
    %b = matmul(%x, %v)
    %s = swish(%a)
    %y = mul(%s, %b)
    return %y as "y"
  })"),
            1U);
}

constexpr std::string_view kChain = R"(module @main(%x: f32[64, 64], %u: f32[64, 64]) {
    %a = mul(%x, %u)
    %b = tanh(%a)
    %c = add(%b, %u)
    %y = exp(%c)
    return %y as "y"
  })";

TEST(RegionCuts, AreKeptInCompiledFiles) {
  const std::string module(kChain);
  const auto found = none();
  compile(program_of(module), with(found));
  const auto regions = found->unknown_forms();
  ASSERT_EQ(regions.size(), 1U);
  EXPECT_EQ(regions[0].second, (std::vector<std::string>{"whole", "cut behind step 1, tanh"}));
  const auto tuning = none();
  tuning->add(regions[0].first, regions[0].second[1]);
  const CompileOptions options = with(tuning);
  const auto cut = compile(program_of(module), options);
  const std::vector<std::string> kernels{"cpu.mul+tanh", "cpu.add+exp"};
  EXPECT_EQ(kernels_of(*cut), kernels);
  std::string file;
  save_program(*cut, options, [&](std::string_view bytes) { file += bytes; });
  const auto opened = CompiledFile::open("cut.lathe", file, nullptr)->program(kMainProgram);
  EXPECT_NE(compiled_source(*opened)->tuned().find("cut behind step 1, tanh"), std::string::npos);
  EXPECT_EQ(kernels_of(*compile(opened->clone(), with(nullptr))), kernels);
}

TEST(RegionCuts, AreMeasuredInRuns) {
  const auto program = program_of(std::string(kChain));
  const std::vector<Box> inputs = inputs_of(*program);
  TuneOptions how;
  how.seconds = 20;  // ends with the last form
  const TuneResult result = tune(*program, with(nullptr), inputs, how);
  EXPECT_EQ(result.report.forms, 1);
  EXPECT_TRUE(result.tuning->unknown_forms().empty());
  EXPECT_NE(to_string(result).find("1 regions measured"), std::string::npos) << to_string(result);
}

// A chain over n rows, and one over one row.
std::unique_ptr<Program> chains() {
  return parse_program(R"(program "net" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 64], %u: f32[64]) {
    %a = exp(%u)
    %b = add(%a, %u)
    %c = tanh(%b)
    %d = mul(%x, %x)
    %e = tanh(%d)
    %y = add(%e, %x)
    return %c as "c", %y as "y"
  }
})");
}

std::vector<std::string> regions_at(int64_t n) {
  const auto tuning = none();
  tuning->set_sizes({{"n", n}});
  compile(chains(), with(tuning));
  std::vector<std::string> regions;
  for (const auto& [region, forms] : tuning->unknown_forms()) regions.push_back(region);
  return regions;
}

TEST(RegionCuts, AreTriedInTheOrderOfTheirBytes) {
  const std::vector<std::string> few = regions_at(1), many = regions_at(500);
  ASSERT_EQ(few.size(), 2U);
  ASSERT_EQ(many.size(), 2U);
  EXPECT_TRUE(many[0].starts_with("region mul+tanh+add f32[500, 64] ")) << many[0];
  EXPECT_TRUE(many[1].starts_with("region exp+add+tanh f32[64] ")) << many[1];
  EXPECT_TRUE(few[0].starts_with("region mul+tanh+add f32[1, 64] ")) << few[0];
}

TEST(RegionCuts, OfManySmallRegionsComeBeforeThatOfOneLargerRegion) {
  const auto tuning = none();
  compile(program_of(R"(module @main(%x: f32[48], %u: f32[48], %v: f32[48], %z: f32[64]) {
    %xa = exp(%x)
    %xy = add(%xa, %x)
    %ua = exp(%u)
    %uy = add(%ua, %u)
    %va = exp(%v)
    %vy = add(%va, %v)
    %za = tanh(%z)
    %zy = add(%za, %z)
    return %xy as "x", %uy as "u", %vy as "v", %zy as "z"
  })"),
          with(tuning));
  const auto regions = tuning->unknown_forms();
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_TRUE(regions[0].first.starts_with("region exp+add f32[48] ")) << regions[0].first;
  EXPECT_TRUE(regions[1].first.starts_with("region tanh+add f32[64] ")) << regions[1].first;
}

TEST(RegionCuts, AreKnownForTheirSizesAlone) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("cuts-{}", ::getpid());
  TuneOptions how;
  how.seconds = 20;
  how.cache = folder.string();
  const auto measured_at = [&](int64_t n) {
    const std::vector<Box> inputs{Box{numbers(ElementType::f32, {n, 64}, 1)},
                                  Box{numbers(ElementType::f32, {64}, 2)}};
    const TuneResult result = tune(*chains(), with(nullptr), inputs, how);
    EXPECT_EQ(result.tuning->sizes(), (std::map<std::string, int64_t>{{"n", n}}));
    return result.report.forms;
  };
  EXPECT_EQ(measured_at(40), 2);
  EXPECT_EQ(measured_at(40), 0);
  EXPECT_EQ(measured_at(8), 1);  // the region without the symbol is known
  EXPECT_EQ(measured_at(40), 0);
  std::filesystem::remove_all(folder);
}

TEST(RegionCuts, OfFilesHaveTheirSizes) {
  const auto tuning = none();
  tuning->set_sizes({{"n", 500}});
  tuning->add(regions_at(500)[0], "cut behind step 0, mul");
  const auto read = read_tuning(tuning->text(true), "");
  EXPECT_EQ(read->sizes(), tuning->sizes());
}

}  // namespace
}  // namespace lathe
#endif
