// SPDX-License-Identifier: MIT
// What the target requests of cuDNN, by a library of plain loops in its place, and the plans that
// it keeps.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/os_environment.h"
#include "base/os_library.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/settings.h"
#include "targets/gpu/target.h"
#include "tensor/convert.h"

namespace lathe::gpu {
namespace {

struct Case {
  ElementType type = ElementType::f32;
  Dims x{};
  Dims w{};
  Integers strides{};
  Integers pads{};
  int64_t group = 1;
  bool bias = false;
  bool residual = false;
  bool relu = false;
};

Tensor numbers(ElementType type, Dims dims, uint32_t state) {
  Tensor made(type, std::move(dims));
  for (int64_t i = 0; i < made.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    store_double(type, made.data(), i, static_cast<double>(state >> 28) / 8 - 1);
  }
  return made;
}

// The residual is the convolution of another input.
Value* add_conv(Builder& b, Value* x, const Case& c, uint32_t seed) {
  const auto axes = c.w.size() - 2;
  std::vector<Value*> operands{x, b.literal(numbers(c.type, c.w, seed))};
  if (c.bias) operands.push_back(b.literal(numbers(c.type, {c.w[0]}, seed + 7)));
  return b(ops::conv, operands,
           {{"strides", c.strides.empty() ? Integers(axes, 1) : c.strides},
            {"pads", c.pads.empty() ? Integers(2 * axes, 0) : c.pads},
            {"group", c.group}});
}

std::unique_ptr<Program> program_of(const Case& c) {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  const Type type = Type::tensor(c.type, std::vector<Dim>(c.x.begin(), c.x.end()));
  Value* x = main.add_parameter(type, "x");
  Builder b(main);
  Value* y = add_conv(b, x, c, 5);
  if (c.residual) y = b(ops::add, {y, main.add_parameter(y->type(), "residual")});
  if (c.relu) y = b(ops::relu, {y});
  main.set_results({y}, {"y"});
  return made;
}

// A target of its own process, as far as plans are concerned: a new device with the cache of
// others.
class GpuConvPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("lathe-plans-{}", ::testing::UnitTest::GetInstance()->random_seed());
    std::filesystem::remove_all(folder_);
    library_ = DynamicLibrary::open(FAKE_CONVOLUTIONS "/libcudnn.so");
    ASSERT_NE(library_, nullptr);
  }
  void TearDown() override {
    if (library_ != nullptr) let_taken_fail(false);
    std::filesystem::remove_all(folder_);
  }

  std::shared_ptr<const GpuTarget> open() const {
    const Settings others = settings();
    set_settings({.libraries = FAKE_CONVOLUTIONS ":" + others.libraries});
    auto made = std::make_shared<GpuTarget>("gpu:host", make_host_driver({.libraries = true}), 0,
                                            folder_.string());
    EXPECT_NE(made->gpu_device().libraries().cudnn(), nullptr);
    set_settings(others);
    return made;
  }
  void let_taken_fail(bool fail) const {
    reinterpret_cast<void (*)(bool)>(library_->symbol("fake_let_taken_fail"))(fail);
  }
  int64_t count(const char* name) const {
    return reinterpret_cast<int64_t (*)()>(library_->symbol(name))();
  }
  // Plans that were built, and those taken from the cache, while `work` runs.
  template <class Work>
  std::pair<int64_t, int64_t> plans(Work&& work) const {
    const int64_t built = count("fake_plans_built");
    const int64_t taken = count("fake_plans_taken");
    work();
    return {count("fake_plans_built") - built, count("fake_plans_taken") - taken};
  }

  std::filesystem::path folder_;
  std::shared_ptr<const DynamicLibrary> library_;
};

TEST_F(GpuConvPlans, AgreeWithRef) {
  using enum ElementType;
  const std::vector<Case> cases{
      {.x = {2, 3, 5, 4}, .w = {4, 3, 3, 2}},
      {.x = {1, 4, 5, 5}, .w = {6, 4, 3, 3}, .pads = {1, 1, 1, 1}, .bias = true, .relu = true},
      {.type = f16, .x = {2, 8, 5, 5}, .w = {8, 8, 3, 3}, .strides = {2, 1}, .pads = {1, 0, 1, 2}},
      {.type = f16,
       .x = {1, 8, 4, 4},
       .w = {8, 8, 1, 1},
       .bias = true,
       .residual = true,
       .relu = true},
      {.type = bf16, .x = {1, 8, 4, 4}, .w = {16, 4, 3, 3}, .group = 2, .bias = true},
      {.type = f16,
       .x = {1, 3, 9, 9},
       .w = {8, 3, 3, 3},
       .strides = {2, 2},
       .pads = {1, 1, 1, 1},
       .bias = true,
       .relu = true},
      {.type = f16, .x = {2, 3, 6, 6}, .w = {8, 3, 3, 3}, .pads = {1, 1, 1, 1}, .relu = true},
      {.type = f16, .x = {2, 8, 7}, .w = {8, 8, 3}, .strides = {2}, .bias = true},
      {.x = {1, 2, 4, 3, 4}, .w = {3, 2, 2, 2, 2}, .residual = true},
  };
  const std::shared_ptr<const GpuTarget> target = open();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    Session expected(compile(program_of(cases[i]), {.target = find_target("ref")}));
    Session found(compile(program_of(cases[i]), {.target = target}));
    std::vector<Box> inputs;
    for (const auto& parameter : expected.plan().program->main().parameters()) {
      Dims dims;
      for (const Dim& dim : *parameter->type().dims) dims.push_back(*dim.constant());
      inputs.push_back(Box{numbers(cases[i].type, dims, static_cast<uint32_t>(inputs.size()))});
    }
    const Tensor x = expected.run(inputs)[0].tensor();
    Tensor y;
    const auto [built, taken] = plans([&] { y = found.run(inputs)[0].tensor(); });
    EXPECT_EQ(built, 1);
    EXPECT_EQ(taken, 0);
    ASSERT_EQ(x.dims(), y.dims());
    const double tolerance = cases[i].type == f32 ? 1e-5 : cases[i].type == f16 ? 2e-2 : 0.2;
    for (int64_t at = 0; at < x.count(); ++at) {
      ASSERT_NEAR(load_double(x.type(), x.data(), at), load_double(y.type(), y.data(), at),
                  tolerance)
          << at;
    }
  }
}

// Five convolutions, of which two are equal.
std::unique_ptr<Program> chain() {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  Value* x = main.add_parameter(
      Type::tensor(ElementType::f16,
                   {Dim(made->add_symbol("n", SymbolKind::bound, {1, 64})), 8, 6, 6}),
      "x");
  Builder b(main);
  for (const int64_t kernel : {1, 3, 1, 2, 3}) {
    const int64_t pad = kernel == 3 ? 1 : 0;
    x = add_conv(
        b, x, {.type = ElementType::f16, .w = {8, 8, kernel, kernel}, .pads = {pad, pad, pad, pad}},
        static_cast<uint32_t>(kernel));
    x = b(ops::relu, {x});
  }
  main.set_results({x}, {"y"});
  return made;
}

TEST_F(GpuConvPlans, AreSharedAndKept) {
  const auto run = [](Session& session, int64_t images) {
    const Box x{numbers(ElementType::f16, {images, 8, 6, 6}, 3)};
    return session.run(std::vector<Box>{x})[0].tensor().clone();
  };
  using Plans = std::pair<int64_t, int64_t>;
  Tensor first;
  {
    const std::shared_ptr<const GpuTarget> target = open();
    Session session(compile(chain(), {.target = target}));
    EXPECT_EQ(plans([&] { first = run(session, 1); }), Plans(4, 0));
    EXPECT_EQ(plans([&] { run(session, 1); }), Plans(0, 0));
    EXPECT_EQ(plans([&] { run(session, 2); }), Plans(4, 0));
    Session other(compile(chain(), {.target = target}));
    EXPECT_EQ(plans([&] { run(other, 2); }), Plans(0, 0));
  }
  const auto again = [&] {
    const std::shared_ptr<const GpuTarget> target = open();
    Session session(compile(chain(), {.target = target}));
    Tensor y;
    const Plans found = plans([&] { y = run(session, 1); });
    for (int64_t at = 0; at < y.count(); ++at) {
      EXPECT_EQ(load_double(y.type(), y.data(), at), load_double(first.type(), first.data(), at))
          << at;
    }
    return found;
  };
  EXPECT_EQ(again(), Plans(0, 4));
  // Entries that are damaged are made anew.
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    std::fstream(file.path(), std::ios::in | std::ios::out).write("x", 1);
  }
  EXPECT_EQ(again(), Plans(4, 0));
  EXPECT_EQ(again(), Plans(0, 4));
  EXPECT_EQ(count("fake_handles_shared"), 0);
}

// Plans that the library takes from the cache, but does not run.
TEST_F(GpuConvPlans, ThatFailAreMadeAnew) {
  using Plans = std::pair<int64_t, int64_t>;
  const Box x{numbers(ElementType::f16, {1, 8, 6, 6}, 3)};
  std::vector<std::string> warnings;
  const auto run = [&] {
    warnings.clear();
    const std::shared_ptr<const GpuTarget> target = open();
    Session session(compile(chain(), {.target = target}));
    set_log_sink([&](int level, std::string_view text) {
      if (level == 0) warnings.emplace_back(text);
    });
    Tensor y;
    const Plans found = plans([&] {
      y = session.run(std::vector<Box>{x})[0].tensor().clone();
      session.run(std::vector<Box>{x});
    });
    set_log_sink(nullptr);
    return std::pair(found, y);
  };
  const auto [made, first] = run();
  EXPECT_EQ(made, Plans(4, 0));
  let_taken_fail(true);
  const auto [again, second] = run();
  EXPECT_EQ(again, Plans(4, 4));
  EXPECT_EQ(warnings, std::vector<std::string>{"a cached plan of cuDNN failed with status 5000: it "
                                               "and others that fail are made anew"});
  for (int64_t at = 0; at < first.count(); ++at) {
    EXPECT_EQ(load_double(first.type(), first.data(), at),
              load_double(second.type(), second.data(), at))
        << at;
  }
  // The new ones replaced them.
  let_taken_fail(false);
  EXPECT_EQ(run().first, Plans(0, 4));
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace lathe::gpu
