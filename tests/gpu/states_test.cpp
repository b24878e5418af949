// SPDX-License-Identifier: MIT
// Caches of sessions on a device: what they commit counts once, and a run that cannot grow them
// leaves them, and the memory of later runs, as they were.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/os_environment.h"
#include "ir/parse.h"
#include "passes/promote_state.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/target.h"

namespace lathe::gpu {
namespace {

// Appends rows, keeps a window of two, and multiplies all by what has just come.
constexpr std::string_view kText = R"(program "caches" stage imported {
  symbol past bound 0..*
  symbol last bound 0..*
  symbol s bound 1..*
  module @main(%past: f32[past, 16], %near: f32[last, 16], %x: f32[s, 16]) {
    %present = concat(%past, %x) {axis = 0}
    %close = concat(%near, %x) {axis = 0}
    %start = literal i64[1] {-2}
    %end = literal i64[1] {9223372036854775807}
    %axis = literal i64[1] {0}
    %window = slice(%close, %start, %end, %axis)
    %t = transpose(%x)
    %products = matmul(%present, %t)
    %weights = softmax(%products)
    %back = matmul(%weights, %x)
    %near_sum = reduce_sum(%close, %axis) {keep_dims = true}
    %y = add(%back, %near_sum)
    return %present as "present", %window as "window", %y as "y"
  }
})";

class GpuStates : public testing::Test {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a card's calls do not fail on request";
    driver_ = make_host_driver();
    target_ = std::make_shared<GpuTarget>("gpu:host", driver_, 0, CodeStore::default_folder());
  }
  // A few rows of address space: the cache moves when it grows.
  std::unique_ptr<Session> session(int64_t reserved) const {
    std::unique_ptr<Program> program = parse_program(kText);
    const std::vector<StatePair> pairs{{"past", "present"}, {"near", "window"}};
    promote_state(*program, pairs);
    SessionOptions options;
    options.reserve_rows = reserved;
    return std::make_unique<Session>(compile(std::move(program), {.target = target_}), options);
  }
  static std::vector<Box> rows(int64_t count, float value) {
    Tensor x(ElementType::f32, {count, 16});
    for (float& element : x.elements<float>()) element = value = value * 0.9F + 0.1F;
    return {Box{x}};
  }
  static std::vector<float> run(Session& session, const std::vector<Box>& inputs) {
    const Tensor y = session.run(inputs)[0].tensor().dense();
    return {y.as<float>(), y.as<float>() + y.count()};
  }

  std::shared_ptr<Driver> driver_;
  std::shared_ptr<const GpuTarget> target_;
};

TEST_F(GpuStates, CommitMemoryOnce) {
  const auto made = session(4096);
  for (int i = 0; i < 8; ++i) run(*made, rows(1, 0.5F));
  const int64_t before = target_->gpu_device().used_bytes();
  for (int i = 0; i < 100; ++i) run(*made, rows(1, 0.5F));
  constexpr int64_t kRowBytes = 16 * sizeof(float);
  constexpr int64_t kMost = int64_t{16} * 108 * kRowBytes;  // of rows, twice, and what lies beside
  EXPECT_LE(target_->gpu_device().used_bytes() - before, kMost);
}

TEST_F(GpuStates, SurviveRunsWithoutMemory) {
  const std::vector<Box> small = rows(2, 0.25F);
  const std::vector<Box> large = rows(40, 0.75F);
  constexpr int64_t kReserved = 8;
  const auto reference = session(kReserved);
  for (int i = 0; i < 3; ++i) run(*reference, small);
  const std::vector<float> expected = run(*reference, large);
  const std::vector<float> next = run(*reference, small);
  int refused = 0;
  for (int64_t call = 1;; ++call) {
    SCOPED_TRACE(fmt::format("a fault at call {}", call));
    const auto made = session(kReserved);
    for (int i = 0; i < 3; ++i) run(*made, small);
    const int64_t before = driver_->calls();
    driver_->fail_at(call);
    bool again = false;
    try {
      EXPECT_EQ(run(*made, large), expected);
    } catch (const Error& error) {
      again = error.kind() == ErrorKind::out_of_memory;  // the others end the session
    }
    const bool last = driver_->calls() - before < call;
    driver_->fail_at(0);
    if (again) {
      ++refused;
      EXPECT_EQ(made->length("past"), 6);
      ASSERT_EQ(run(*made, large), expected);
      ASSERT_EQ(run(*made, small), next);
    }
    if (last) break;
  }
  EXPECT_GT(refused, 3);
}

}  // namespace
}  // namespace lathe::gpu
