// SPDX-License-Identifier: MIT
// Sessions on the simulated device, with several delays: the caller's memory, order between host
// and stream, failures, cancellation, limits, states.
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "base/error.h"
#include "ir/parse.h"
#include "passes/promote_state.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/sim_target.h"

namespace lathe {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor floats(Dims dims, std::vector<float> values) {
  Tensor tensor(ElementType::f32, std::move(dims));
  std::copy(values.begin(), values.end(), tensor.as<float>());
  return tensor;
}

Tensor integer(int64_t value) {
  Tensor tensor(ElementType::i64, {1});
  *tensor.as<int64_t>() = value;
  return tensor;
}

std::vector<float> values(const Box& box) {
  const Tensor dense = box.tensor().dense();
  return {dense.as<float>(), dense.as<float>() + dense.count()};
}

struct Case {
  bool mixed = false;
  uint64_t seed = 0;
};

class DeviceSession : public testing::TestWithParam<Case> {
 protected:
  static std::shared_ptr<const Plan> plan_of(std::string_view text,
                                             std::vector<StatePair> states = {}) {
    return compiled(text, states, test::sim_target(GetParam().mixed, GetParam().seed));
  }
  static std::shared_ptr<const Plan> reference_of(std::string_view text,
                                                  std::vector<StatePair> states = {}) {
    return compiled(text, states, find_target("ref"));
  }

 private:
  static std::shared_ptr<const Plan> compiled(std::string_view text,
                                              const std::vector<StatePair>& states,
                                              std::shared_ptr<const Target> target) {
    std::unique_ptr<Program> program = parse_program(text);
    promote_state(*program, states);
    return compile(std::move(program), {.target = std::move(target)});
  }
};

void expect_error(ErrorKind kind, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "expected an error of kind " << static_cast<int>(kind);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
  }
}

// Nothing in a run reads what it appends, so no result waits for the copy of its input.
TEST_P(DeviceSession, ReadsItsInputsBeforeARunReturns) {
  Session session(plan_of(R"(program "append" stage imported {
    symbol past bound 0..*
    symbol s bound 1..*
    module @main(%past: f32[past, 2], %x: f32[s, 2]) {
      %axis = literal i64[1] {0}
      %y = reduce_sum(%past, %axis) {keep_dims = false}
      %present = concat(%past, %x) {axis = 0}
      return %present as "present", %y as "y"
    }
  })",
                          {{"past", "present"}}));
  const Tensor x(ElementType::f32, {1, 2});
  float sum = 0;
  for (int i = 0; i < 60; ++i) {
    const auto value = static_cast<float>(i + 1);
    x.as<float>()[0] = value;
    x.as<float>()[1] = -value;
    const std::vector<Box> inputs{Box{x}};
    const std::vector<Box> results = session.run(inputs);
    x.as<float>()[0] = x.as<float>()[1] = kNan;
    EXPECT_EQ(values(results[0]), (std::vector<float>{sum, -sum})) << "run " << i;
    sum += value;
  }
  EXPECT_EQ(session.length("past"), 60);
}

// Each value crosses to the device while the host computes the next in the memory of the one
// before.
TEST_P(DeviceSession, KeepsHostMemoryUntilTheStreamHasReadIt) {
  constexpr int kSteps = 48;
  std::string text = "program \"crossing\" stage imported {\n  module @main(%x: f32[256]) {\n";
  text += "    %one = literal f32[] {1}\n    %h0 = add(%x, %one)\n    %d0 = neg(%h0)\n";
  std::string sums = "%d0";
  for (int i = 1; i < kSteps; ++i) {
    text += fmt::format("    %h{} = add(%h{}, %one)\n    %d{} = neg(%h{})\n", i, i - 1, i, i);
    sums += fmt::format(", %d{}", i);
  }
  text += fmt::format("    %y = concat({}) {{axis = 0}}\n    return %y as \"y\"\n  }}\n}}", sums);
  Session session(plan_of(text));
  Session reference(reference_of(text));
  for (int run = 0; run < 4; ++run) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(run * 1000 + i);
    const std::vector<Box> inputs{Box{floats({256}, x)}};
    EXPECT_EQ(values(session.run(inputs)[0]), values(reference.run(inputs)[0])) << "run " << run;
  }
}

// Host and stream alternate: each reads what the other has just written.
TEST_P(DeviceSession, WaitsForValuesThatTheHostReads) {
  std::string text = "program \"relay\" stage imported {\n  module @main(%x: f32[256]) {\n";
  text += "    %one = literal f32[] {1}\n    %v0 = neg(%x)\n";
  constexpr int kSteps = 32;
  for (int i = 1; i <= kSteps; ++i) {
    text += fmt::format("    %u{} = add(%v{}, %one)\n    %v{} = neg(%u{})\n", i, i - 1, i, i);
  }
  text += fmt::format("    return %v{} as \"y\"\n  }}\n}}", kSteps);
  Session session(plan_of(text));
  Session reference(reference_of(text));
  for (int run = 0; run < 8; ++run) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(run * 100 + i % 7);
    const std::vector<Box> inputs{Box{floats({256}, x)}};
    EXPECT_EQ(values(session.run(inputs)[0]), values(reference.run(inputs)[0])) << "run " << run;
  }
}

// Inputs are transposed and offset; outputs have gaps, or come from a callback.
TEST_P(DeviceSession, ReadsAndWritesTheCallersMemoryWithAnyStrides) {
  Session session(plan_of(R"(program "plain" stage imported {
    symbol n bound 0..*
    module @main(%x: f32[n, 2], %w: f32[2, 2]) {
      %y = matmul(%x, %w)
      %z = relu(%y)
      %s = sub(%z, %x)
      return %z as "z", %s as "s"
    }
  })"));
  Tensor storage = floats({2, 3}, {1, 3, 5, 2, 4, 6});
  const Tensor x(ElementType::f32, {3, 2}, {1, 3}, storage.data(), storage.owner());
  Tensor shifted = floats({5}, {9, 1, -1, 0, 1});
  const Tensor w(ElementType::f32, {2, 2}, {2, 1}, shifted.as<float>() + 1, shifted.owner());
  const std::vector<Box> inputs{Box{x}, Box{w}};
  for (int run = 0; run < 4; ++run) {
    Tensor room(ElementType::f32, {3, 4});
    const std::vector<Tensor> outputs{
        Tensor(ElementType::f32, {3, 2}, {4, 2}, room.as<float>() + 1, room.owner())};
    Tensor backward(ElementType::f32, {3, 2});
    const OutputCallback callback = [&](int index, ElementType, std::span<const int64_t> dims) {
      EXPECT_EQ(index, 1);
      EXPECT_EQ(Dims(dims.begin(), dims.end()), (Dims{3, 2}));
      TensorView view = backward.view();
      view.data = backward.as<float>() + 5;
      view.strides[0] = -2;
      view.strides[1] = -1;
      return view;
    };
    RunOptions options;
    options.outputs = outputs;
    options.callback = &callback;
    const std::vector<Box> results = session.run(inputs, options);
    EXPECT_EQ(results[0].tensor().data(), outputs[0].data());
    EXPECT_EQ(values(results[0]), (std::vector<float>{1, 1, 3, 1, 5, 1}));
    EXPECT_EQ(room.as<float>()[0], 0.0F);
    EXPECT_EQ(room.as<float>()[2], 0.0F);
    EXPECT_EQ(values(Box{backward}), (std::vector<float>{-5, 0, -3, 0, -1, 0}));
  }
}

TEST_P(DeviceSession, SupportsOneBufferAsPastAndPresent) {
  Session session(plan_of(R"(program "cache" stage imported {
    symbol past bound 0..*
    symbol s bound 1..*
    module @main(%past: f32[2, past], %x: f32[2, s]) {
      %present = concat(%past, %x) {axis = 1}
      return %present as "present"
    }
  })"));
  Tensor cache(ElementType::f32, {2, 8});
  const auto rows = [&](int64_t n) {
    return Tensor(ElementType::f32, {2, n}, {8, 1}, cache.data(), cache.owner());
  };
  for (int64_t n = 0; n < 8; ++n) {
    const std::vector<Tensor> outputs{rows(n + 1)};
    RunOptions options;
    options.outputs = outputs;
    const auto value = static_cast<float>(n);
    const std::vector<Box> inputs{Box{rows(n)}, Box{floats({2, 1}, {value, -value})}};
    session.run(inputs, options);
  }
  EXPECT_EQ(values(Box{cache}),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 0, -1, -2, -3, -4, -5, -6, -7}));
}

// Appends, slides a window and replaces a sum; `pick` makes the last kernel fail after the appends.
// The number of elements above zero is found before the last output is requested.
constexpr std::string_view kStates = R"(program "states" stage imported {
  symbol past bound 0..*
  symbol last bound 0..*
  symbol s bound 1..*
  symbol some found 0..*
  module @main(%past: f32[past, 2], %near: f32[last, 2], %sum: f32[2], %x: f32[s, 2], %pick: i64[1]) {
    %present = concat(%past, %x) {axis = 0}
    %close = concat(%near, %x) {axis = 0}
    %start = literal i64[1] {-2}
    %end = literal i64[1] {9223372036854775807}
    %axis = literal i64[1] {0}
    %window = slice(%close, %start, %end, %axis)
    %one = reduce_sum(%present, %axis) {keep_dims = false}
    %total = add(%sum, %one)
    %all = reduce_sum(%close, %axis) {keep_dims = false}
    %y = add(%total, %all)
    %at = nonzero(%y) found some
    %row = neg(%y)
    %rows = gather(%present, %pick) {axis = 0}
    return %present as "present", %window as "window", %total as "total", %y as "y", %at as "at",
      %rows as "rows"
  }
})";

std::vector<StatePair> state_pairs() {
  return {{"past", "present"}, {"near", "window"}, {"sum", "total"}};
}

std::vector<Box> step(float value, int64_t pick, int64_t rows = 1) {
  std::vector<float> x;
  for (int64_t i = 0; i < rows; ++i) {
    x.push_back(value + static_cast<float>(i));
    x.push_back(-value);
  }
  return {Box{floats({rows, 2}, x)}, Box{integer(pick)}};
}

void expect_equal(const std::vector<Box>& a, const std::vector<Box>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(values(a[0]), values(b[0]));
  EXPECT_EQ(a[1].tensor().dims(), b[1].tensor().dims());
  EXPECT_EQ(values(a[2]), values(b[2]));
}

// Cancelled before, between and after launches, late, with a failing kernel, without memory.
TEST_P(DeviceSession, ChangesNoStateInARunThatFails) {
  Session session(plan_of(kStates, state_pairs()));
  Session reference(reference_of(kStates, state_pairs()));
  for (int i = 0; i < 16; ++i) {
    const int64_t rows = i % 3 + 1;
    const std::vector<Box> good = step(static_cast<float>(i + 1), i, rows);
    CancelToken cancel;
    RunOptions options;
    options.cancel = &cancel;
    std::vector<Tensor> memory;
    int calls = 0;
    bool sleeps = false;
    const OutputCallback callback = [&](int, ElementType type, std::span<const int64_t> dims) {
      memory.emplace_back(type, Dims(dims.begin(), dims.end()));
      // Called for the second output while the run finds its size: half of the launches are
      // enqueued.
      if (++calls == 2 && sleeps) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      if (calls == 2 && !sleeps) cancel.cancel();
      return memory.back().view();
    };
    options.callback = &callback;
    expect_error(ErrorKind::interrupted, [&] { session.run(good, options); });
    EXPECT_EQ(calls, 3);
    calls = 0;
    expect_error(ErrorKind::interrupted, [&] { session.run(good, options); });
    EXPECT_EQ(calls, 0);
    cancel.reset();
    sleeps = true;
    options.deadline = Clock::now() + std::chrono::milliseconds(20);
    expect_error(ErrorKind::interrupted, [&] { session.run(good, options); });
    const std::vector<Box> bad = step(static_cast<float>(i) * 7, 10000, rows);
    EXPECT_THROW(session.run(bad), Error);
    EXPECT_EQ(session.length("past"), reference.length("past"));
    expect_equal(session.run(good), reference.run(good));
    EXPECT_EQ(session.length("past"), reference.length("past"));
    EXPECT_EQ(session.length("near"), reference.length("near"));
  }
}

// A fork continues by itself; rewinding and emptying a session do not change it.
TEST_P(DeviceSession, ForksTruncatesAndResetsStatesOfEveryKind) {
  const auto plan = plan_of(kStates, state_pairs());
  Session session(plan);
  Session fork(plan);
  Session reference(reference_of(kStates, state_pairs()));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) {
      const std::vector<Box> inputs = step(static_cast<float>(i + round), i, i % 2 + 1);
      expect_equal(session.run(inputs), reference.run(inputs));
    }
    fork.copy_states_from(session);
    const std::vector<Box> next = step(5, 2);
    const std::vector<Box> expected = reference.run(next);
    expect_equal(session.run(next), expected);
    session.truncate(2);
    reference.truncate(2);
    expect_equal(fork.run(next), expected);
    expect_equal(session.run(next), reference.run(next));
    EXPECT_EQ(session.length("past"), 3);
    EXPECT_EQ(fork.length("past"), 8);
    session.reset();
    reference.reset();
    EXPECT_EQ(session.length("near"), 0);
  }
}

// An intermediate value beyond the limit, of a program whose inputs and results are small.
TEST_P(DeviceSession, LimitsTheMemoryOfTheDevice) {
  const auto plan = plan_of(R"(program "large" stage imported {
    symbol n bound 0..*
    symbol past bound 0..*
    module @main(%past: f32[past, 1], %x: f32[n, 1]) {
      %present = concat(%past, %x) {axis = 0}
      %t = transpose(%x)
      %outer = matmul(%x, %t)
      %square = neg(%outer)
      %axes = literal i64[2] {0, 1}
      %y = reduce_sum(%square, %axes) {keep_dims = false}
      %all = reduce_sum(%present, %axes) {keep_dims = false}
      return %present as "present", %y as "y", %all as "all"
    }
  })",
                            {{"past", "present"}});
  Session session(plan, {.memory_limit = 64 * 1024, .warn = {}});
  float total = 0;
  for (int i = 1; i <= 6; ++i) {
    const auto value = static_cast<float>(i);
    const std::vector<Box> large{Box{floats({1000, 1}, std::vector<float>(1000, value))}};
    expect_error(ErrorKind::out_of_memory, [&] { session.run(large); });
    const std::vector<Box> small{Box{floats({2, 1}, {value, value})}};
    const std::vector<Box> results = session.run(small);
    total += 2 * value;
    EXPECT_EQ(values(results[0]), (std::vector<float>{-4 * value * value}));
    EXPECT_EQ(values(results[1]), (std::vector<float>{total}));
  }
}

TEST_P(DeviceSession, RunsManySessionsOfOnePlanAtOnce) {
  const auto plan = plan_of(kStates, state_pairs());
  Session reference(reference_of(kStates, state_pairs()));
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 6; ++i) {
    expected.push_back(values(reference.run(step(static_cast<float>(i), i))[0]));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Session session(plan);
      for (int i = 0; i < 6; ++i) {
        const std::vector<Box> inputs = step(static_cast<float>(i), i);
        if (values(session.run(inputs)[0]) != expected[static_cast<size_t>(i)]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const uint64_t seed : test::kSimSeeds) {
    all.push_back({false, seed});
    all.push_back({true, seed});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sim, DeviceSession, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format("{}_{}", test.param.mixed ? "mixed" : "plain", test.param.seed);
});

}  // namespace
}  // namespace lathe
