// SPDX-License-Identifier: MIT
// Launches that recur are replayed: results stay those of ref, whatever changes between runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

constexpr const char* kChain = R"(
program "chain" stage imported {
  symbol n bound 0..*
  module @main(%x: f32[n, 3], %w: f32[3, 3]) {
    %a = matmul(%x, %w)
    %b = softmax(%a)
    %c = matmul(%b, %w)
    %d = softmax(%c)
    %e = matmul(%d, %w)
    return %e as "e"
  }
})";

// The body's first iteration has `n` rows, each next one more; the steps keep their extents.
constexpr const char* kGrowing = R"(
program "growing" stage imported {
  symbol n bound 1..*
  symbol carried bound 1..*
  module @main(%trips: i64[], %x: f32[n, 3], %w: f32[3, 3]) {
    %yes = literal bool[] {true}
    %y = loop(%trips, %yes, %x, %w) {carried = 1, body = @body}
    return %y as "y"
  }
  module @body(%i: i64[], %go: bool[], %p: f32[carried, 3], %w: f32[3, 3]) {
    %a = matmul(%p, %w)
    %b = softmax(%a)
    %c = matmul(%b, %w)
    %d = softmax(%c)
    %starts = literal i64[1] {0}
    %ends = literal i64[1] {1}
    %first = slice(%d, %starts, %ends)
    %e = concat(%d, %first) {axis = 0}
    return %go as "go", %e as "e"
  }
})";

constexpr const char* kSteady = R"(
program "steady" stage imported {
  symbol n bound 1..*
  symbol carried bound 1..*
  module @main(%trips: i64[], %x: f32[n, 3], %w: f32[3, 3]) {
    %yes = literal bool[] {true}
    %y = loop(%trips, %yes, %x, %w) {carried = 1, body = @body}
    return %y as "y"
  }
  module @body(%i: i64[], %go: bool[], %p: f32[carried, 3], %w: f32[3, 3]) {
    %a = matmul(%p, %w)
    %b = softmax(%a)
    %c = matmul(%b, %w)
    %d = softmax(%c)
    return %go as "go", %d as "d"
  }
})";

Tensor floats(int64_t rows, float first) {
  Tensor tensor(ElementType::f32, {rows, 3});
  for (float& x : tensor.elements<float>()) first = x = first * 0.9F + 0.1F;
  return tensor;
}

Box count(int64_t value) {
  Tensor tensor(ElementType::i64, {});
  *tensor.as<int64_t>() = value;
  return Box{tensor};
}

void expect_near(const Tensor& expected, const Tensor& found) {
  ASSERT_EQ(expected.dims(), found.dims());
  for (int64_t i = 0; i < expected.count(); ++i) {
    EXPECT_NEAR(expected.as<float>()[i], found.as<float>()[i], 1e-5) << i;
  }
}

std::shared_ptr<const Plan> plan_of(const char* text, const std::shared_ptr<const Target>& target) {
  return compile(parse_program(text), {.target = target});
}

TEST(Replay, ResultsFollowInputsAndShapes) {
  for (const auto& target : gpu_host_targets()) {
    Session expected(plan_of(kChain, find_target("ref")));
    Session found(plan_of(kChain, target));
    float start = 0.3F;
    for (const int64_t rows : {3, 3, 3, 5, 5, 5, 3, 3, 0, 4, 5, 3}) {
      const std::vector<Box> inputs{Box{floats(rows, start)}, Box{floats(3, start / 2)}};
      expect_near(expected.run(inputs)[0].tensor(), found.run(inputs)[0].tensor());
      start += 0.17F;
    }
  }
}

TEST(Replay, RecurringLaunchesCostOneCall) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const std::shared_ptr<gpu::Driver> driver = gpu::make_host_driver();
  const auto target =
      std::make_shared<GpuTarget>("gpu:host", driver, 0, gpu::CodeStore::default_folder());
  Session session(plan_of(kChain, target));
  const std::vector<Box> inputs{Box{floats(3, 0.3F)}, Box{floats(3, 0.2F)}};
  std::vector<int64_t> calls;
  for (int run = 0; run < 8; ++run) {
    const int64_t before = driver->calls();
    session.run(inputs);
    calls.push_back(driver->calls() - before);
  }
  // The first loads code, the second records; then five launches are one. Code that no launch needs
  // is loaded beside some runs.
  const int64_t fewest = *std::min_element(calls.begin() + 2, calls.end());
  EXPECT_GE(std::count(calls.begin() + 2, calls.end(), fewest), 2);
  EXPECT_LE(fewest + 4, calls[0]);
  EXPECT_EQ(session.counters().launches % 4, 0);
}

// Inputs and results in the memory of the device: no copies, and all launches are one.
TEST(Replay, MemoryOfCallersIsRecordedToo) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const std::shared_ptr<gpu::Driver> driver = gpu::make_host_driver();
  const auto target =
      std::make_shared<GpuTarget>("gpu:host", driver, 0, gpu::CodeStore::default_folder());
  Session session(compile(parse_program(kChain), {.target = target, .boundary = Boundary::device}));
  Session expected(plan_of(kChain, find_target("ref")));
  const std::unique_ptr<Stream> stream = target->device()->make_stream();
  const auto move = [&](const Tensor& to, const Tensor& from) {
    stream->copy(to.data(), from.data(), static_cast<size_t>(from.byte_size()));
    stream->synchronize();
  };
  const auto made = [&](int64_t rows) {
    return make_tensor(*target->device(), ElementType::f32, {rows, 3});
  };
  struct Memory {
    Tensor x, w, e;
  };
  const std::array<Memory, 2> memories{Memory{made(3), made(3), made(3)},
                                       Memory{made(3), made(3), made(3)}};
  float start = 0.3F;
  for (int run = 0; run < 12; ++run) {
    const Memory& memory = memories[static_cast<size_t>(run / 2 % 2)];
    const std::vector<Box> inputs{Box{floats(3, start)}, Box{floats(3, start / 2)}};
    move(memory.x, inputs[0].tensor());
    move(memory.w, inputs[1].tensor());
    const gpu::Driver::Counts before = driver->counts();
    std::vector<Box> results(1);
    RunOptions options;
    options.outputs = {&memory.e, 1};
    session.run(std::vector<Box>{Box{memory.x}, Box{memory.w}}, results, options);
    const gpu::Driver::Counts after = driver->counts();
    if (run < 4) continue;  // until both memories have been seen twice
    EXPECT_EQ(after.copies, before.copies) << run;
    EXPECT_EQ(after.launches, before.launches) << run;
    EXPECT_EQ(after.graphs, before.graphs + 1) << run;
    const Tensor found(ElementType::f32, {3, 3});
    move(found, memory.e);
    expect_near(expected.run(inputs)[0].tensor(), found);
    start += 0.17F;
  }
}

TEST(Replay, BodiesOfLoopsKeepTheirExtents) {
  for (const auto& target : gpu_host_targets()) {
    for (const char* text : {kGrowing, kSteady}) {
      Session expected(plan_of(text, find_target("ref")));
      Session found(plan_of(text, target));
      float start = 0.3F;
      for (const int64_t rows : {2, 2, 2, 5, 2}) {
        for (const int64_t trips : {4, 4, 1, 0, 6}) {
          const std::vector<Box> inputs{count(trips), Box{floats(rows, start)},
                                        Box{floats(3, start / 2)}};
          expect_near(expected.run(inputs)[0].tensor(), found.run(inputs)[0].tensor());
          start += 0.07F;
        }
      }
    }
  }
}

TEST(Replay, ARefusedRecordingRunsLaunchByLaunch) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const std::shared_ptr<gpu::Driver> driver = gpu::make_host_driver();
  const auto target =
      std::make_shared<GpuTarget>("gpu:host", driver, 0, gpu::CodeStore::default_folder());
  const std::vector<Box> inputs{Box{floats(3, 0.3F)}, Box{floats(3, 0.2F)}};
  Session whole(plan_of(kChain, target));
  const Tensor expected = whole.run(inputs)[0].tensor().clone();
  int64_t before = driver->calls();
  whole.run(inputs);
  const int64_t calls = driver->calls() - before;
  // Each call of the run that records fails in turn: the run succeeds or its error states it, and a
  // new session is not affected.
  for (int64_t call = 1; call <= calls; ++call) {
    Session session(plan_of(kChain, target));
    session.run(inputs);
    driver->fail_at(call);
    try {
      expect_near(expected, session.run(inputs)[0].tensor());
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::device || error.kind() == ErrorKind::out_of_memory)
          << error.what();
    }
    driver->fail_at(0);
    Session other(session.plan().compile(parse_program(kChain)));
    expect_near(expected, other.run(inputs)[0].tensor());
  }
}

}  // namespace
}  // namespace lathe::test
