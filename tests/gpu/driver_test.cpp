// SPDX-License-Identifier: MIT
// The host driver: order, faults, the memory limit, compiled code and its cache.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "base/os_environment.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/device.h"
#include "targets/gpu/target.h"

namespace lathe::gpu {
namespace {

const std::vector<HostDriverOptions> kOrders{
    {}, {.wave = 64, .order = ThreadOrder::descending}, {.order = ThreadOrder::random, .seed = 3}};

// Runs a kernel of one block over 64 floats, which it takes as `x`; returns them.
std::vector<float> run(const HostDriverOptions& options, const std::string& body) {
  const std::shared_ptr<Driver> driver = make_host_driver(options);
  DiskCache cache("");
  CodeStore store(driver, cache);
  const auto code = store.get(
      {"test", "struct Arguments { float* x; };\nKERNEL(test, Arguments, 64) {\n" + body + "}\n"});
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const StreamHandle stream = driver->make_stream();
  void* memory = driver->allocate(values.size() * sizeof(float));
  driver->copy(stream, memory, values.data(), values.size() * sizeof(float));
  const std::span<const std::byte> arguments = std::as_bytes(std::span(&memory, 1));
  driver->launch(stream, {code->function(), {1, 1, 1}, 64, arguments});
  driver->copy(stream, values.data(), memory, values.size() * sizeof(float));
  std::exception_ptr failure;
  try {
    driver->synchronize(stream);
  } catch (...) {
    failure = std::current_exception();
  }
  driver->free(memory);
  driver->destroy(stream);
  if (failure != nullptr) std::rethrow_exception(failure);
  return values;
}

constexpr const char* kReverse =
    "  SHARED(float, place, 64);\n  const u32 i = thread_index();\n"
    "  place[i] = load(a.x + i);\n  BARRIER\n  store(a.x + i, place[63 - i]);\n";

std::string reverse(std::string_view barrier) {
  std::string text = kReverse;
  return text.replace(text.find("BARRIER"), 7, barrier);
}

// Compiles device code by clang.
class GpuHost : public testing::Test {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  }
};

size_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

Source numbered_source(int number) {
  return {"test", fmt::format("struct Arguments {{ float* x; }};\n"
                              "KERNEL(test, Arguments, 64) {{\n"
                              "  store(a.x, {}.0f);\n}}\n",
                              number)};
}

// Compiles, leaves more to be compiled, and exits. Exit handlers run last to first: what is
// registered here runs after all of the store's, and waits at most a second for ended threads to
// vanish.
[[noreturn]] void exit_while_compiling() {
  std::atexit([] {
    for (int i = 0; i < 1000 && count_threads() > 1; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (count_threads() > 1) std::_Exit(3);
  });
  // As one in a static object.
  auto* cache = new DiskCache("");
  auto* store = new CodeStore(make_host_driver({}), *cache);
  std::vector<std::shared_ptr<const Code>> codes;
  for (int i = 0; i < 6; ++i) {
    codes.push_back(store->get(numbered_source(i)));
    if (i == 0) codes[0]->function();
  }
  std::exit(0);
}

TEST_F(GpuHost, ExitEndsTheThreadsThatCompile) {
  // A process of its own: a fork would inherit the exit handlers of the tests before, not their
  // threads.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_while_compiling(), testing::ExitedWithCode(0), "");
}

// More than the threads take at once are expected before; those in vain are never made.
TEST_F(GpuHost, CodeThatALaunchWaitsForIsMadeBeforeWhatIsExpected) {
  constexpr int kCount = 40;
  DiskCache cache("");
  CodeStore store(make_host_driver({}), cache);
  std::atomic<bool> worked = false;
  std::vector<std::shared_ptr<const Code>> expected;
  for (int i = 0; i < kCount; ++i) {
    expected.push_back(store.get(numbered_source(i), Wanted::later));
    if (i == 0) store.later([&] { worked = true; });
  }
  store.get(numbered_source(kCount))->function();
  EXPECT_LT(store.compiled(), kCount);
  expected.back()->function();
  EXPECT_LT(store.compiled(), kCount);
  EXPECT_FALSE(worked);
  expected.clear();
  store.wait_idle();
  EXPECT_LT(store.compiled(), kCount);
  EXPECT_TRUE(worked);
}

TEST_F(GpuHost, ThreadsExchangeValuesAcrossABarrierInEveryOrder) {
  for (const HostDriverOptions& options : kOrders) {
    const std::vector<float> values = run(options, reverse("barrier();"));
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], static_cast<float>(63 - i));
  }
}

TEST_F(GpuHost, OrdersShowAMissingBarrier) {
  EXPECT_NE(run(kOrders[0], reverse("")), run(kOrders[1], reverse("")));
}

TEST_F(GpuHost, AFaultNamesItsThread) {
  const auto message_of = [](const std::string& body) {
    try {
      run({}, body);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message_of("  float x = 0;\n  load(&x);\n").find("memory of the host in thread 0"),
            std::string::npos);
  EXPECT_NE(message_of("  if (thread_index() < 5) barrier();\n").find("reach a barrier"),
            std::string::npos);
}

TEST_F(GpuHost, WavesShuffleAtBothWidths) {
  for (const HostDriverOptions& options : kOrders) {
    const std::vector<float> values =
        run(options,
            "  const u32 i = thread_index();\n"
            "  store(a.x + i, shuffle_xor(load(a.x + i), wave_width() / 2));\n");
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(values[i], static_cast<float>(i ^ static_cast<size_t>(options.wave / 2)));
    }
  }
}

// A program of a product, a bias and an activation.
std::unique_ptr<Program> program() {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  Value* x = main.add_parameter(Type::tensor(ElementType::f32, {2, 3}), "x");
  Value* w = main.add_parameter(Type::tensor(ElementType::f32, {3, 2}), "w");
  Builder b(main);
  Value* y = b(ops::relu, {b(ops::matmul, {x, w})});
  main.set_results({y}, {"y"});
  return made;
}

std::vector<Box> inputs() {
  Tensor x(ElementType::f32, {2, 3});
  Tensor w(ElementType::f32, {3, 2});
  for (int i = 0; i < 6; ++i) x.as<float>()[i] = w.as<float>()[i] = static_cast<float>(i);
  return {Box{x}, Box{w}};
}

TEST_F(GpuHost, DamagedEntriesOfTheCacheAreRebuilt) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      fmt::format("lathe-cache-{}", ::testing::UnitTest::GetInstance()->random_seed());
  std::filesystem::remove_all(folder);
  const std::shared_ptr<Driver> driver = make_host_driver();
  const Source source{"test", "struct Arguments {};\nKERNEL(test, Arguments, 1) {}\n"};
  for (const int64_t compiled : {1, 0, 1}) {
    DiskCache cache(folder.string());
    CodeStore store(driver, cache);
    EXPECT_NE(store.get(source)->function().native, nullptr);
    EXPECT_EQ(store.compiled(), compiled);
    if (compiled == 1) continue;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      std::fstream(file.path(), std::ios::in | std::ios::out).write("x", 1);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(GpuHost, TheMemoryLimitRefusesMore) {
  const auto target = std::make_shared<GpuTarget>("gpu:host", make_host_driver(), 4096, "");
  try {
    Session session(compile(program(), {.target = target}));
    session.run(inputs());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
  }
}

// Two weights of 4 KB: one would fit.
TEST_F(GpuHost, WeightsThatCannotFitAreRefusedBeforeAnyIsCopied) {
  const auto weights = [] {
    auto made = std::make_unique<Program>();
    made->name = "two";
    Module& main = made->main();
    Value* x = main.add_parameter(Type::tensor(ElementType::f32, {2, 32}), "x");
    Builder b(main);
    for (int i = 0; i < 2; ++i) {
      Tensor w(ElementType::f32, {32, 32});
      std::ranges::fill(w.elements<float>(), static_cast<float>(i + 1));
      x = b(ops::matmul, {x, b.literal(w)});
    }
    main.set_results({x}, {"y"});
    return made;
  };
  const std::shared_ptr<Driver> driver = make_host_driver();
  const auto small = std::make_shared<GpuTarget>("gpu:host", driver, 6000, "");
  try {
    compile(weights(), {.target = small});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_NE(std::string(error.what())
                  .find("the weights of 'two' take 8192 bytes on gpu:host: "
                        "gpu:host: 8192 more bytes exceed the limit of 6000"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(crossed_bytes(*driver), 0);
  EXPECT_EQ(small->gpu_device().used_bytes(), 0);
  const auto large = std::make_shared<GpuTarget>("gpu:host", driver, 9000, "");
  EXPECT_NE(compile(weights(), {.target = large}), nullptr);
  EXPECT_EQ(crossed_bytes(*driver), 8192);
}

}  // namespace
}  // namespace lathe::gpu
