// SPDX-License-Identifier: MIT
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "ir/parse.h"
#include "passes/promote_state.h"
#include "targets/compile.h"

namespace lathe {
namespace {

Tensor floats(Dims dims, std::vector<float> values) {
  Tensor tensor(ElementType::f32, std::move(dims));
  std::copy(values.begin(), values.end(), tensor.as<float>());
  return tensor;
}

std::vector<float> values(const Box& box) {
  const Tensor dense = box.tensor().dense();
  return {dense.as<float>(), dense.as<float>() + dense.count()};
}

std::shared_ptr<const Plan> plan_of(std::string_view text, std::string_view target = "ref",
                                    std::vector<StatePair> states = {}) {
  std::unique_ptr<Program> program = parse_program(text);
  promote_state(*program, states);
  return compile(std::move(program), {.target = find_target(target)});
}

constexpr std::string_view kPlain = R"(program "plain" stage imported {
  symbol n bound 0..*
  module @main(%x: f32[n, 2], %w: f32[2, 2]) {
    %y = matmul(%x, %w)
    %z = relu(%y)
    return %z as "z"
  }
})";

// Like a decoder, appends rows and reads all rows; replaces the carried sum.
constexpr std::string_view kStates = R"(program "states" stage imported {
  symbol past bound 0..*
  symbol last bound 0..*
  symbol s bound 1..*
  module @main(%past: f32[past, 2], %near: f32[last, 2], %sum: f32[2], %x: f32[s, 2], %pick: i64[1]) {
    %present = concat(%past, %x) {axis = 0}
    %close = concat(%near, %x) {axis = 0}
    %start = literal i64[1] {-2}
    %end = literal i64[1] {9223372036854775807}
    %axis = literal i64[1] {0}
    %window = slice(%close, %start, %end, %axis)
    %rows = gather(%present, %pick) {axis = 0}
    %one = reduce_sum(%rows, %axis) {keep_dims = false}
    %total = add(%sum, %one)
    %all = reduce_sum(%close, %axis) {keep_dims = false}
    %y = add(%total, %all)
    return %present as "present", %window as "window", %total as "total", %y as "y"
  }
})";

std::vector<StatePair> state_pairs() {
  return {{"past", "present"}, {"near", "window"}, {"sum", "total"}};
}

std::vector<Box> step(float value, int64_t pick) {
  Tensor index(ElementType::i64, {1});
  *index.as<int64_t>() = pick;
  return {Box{floats({1, 2}, {value, -value})}, Box{index}};
}

TEST(Session, ReadsInputsAndWritesOutputsInPlace) {
  Session session(plan_of(kPlain));
  // A transposed view of x, and a weight at an offset of one element.
  Tensor storage = floats({2, 3}, {1, 3, 5, 2, 4, 6});
  const Tensor x(ElementType::f32, {3, 2}, {1, 3}, storage.data(), storage.owner());
  Tensor shifted = floats({5}, {9, 1, -1, 0, 1});
  const Tensor w(ElementType::f32, {2, 2}, {2, 1}, shifted.as<float>() + 1, shifted.owner());
  Tensor room(ElementType::f32, {3, 4});
  const Tensor out(ElementType::f32, {3, 2}, {4, 2}, room.as<float>() + 1, room.owner());
  RunOptions options;
  const std::vector<Tensor> outputs{out};
  options.outputs = outputs;
  const std::vector<Box> inputs{Box{x}, Box{w}};
  const std::vector<Box> results = session.run(inputs, options);
  EXPECT_EQ(results[0].tensor().data(), out.data());
  EXPECT_EQ(values(results[0]), (std::vector<float>{1, 1, 3, 1, 5, 1}));
  EXPECT_EQ(room.as<float>()[0], 0.0F);
  EXPECT_EQ(room.as<float>()[2], 0.0F);
  EXPECT_EQ(session.counters().input_bytes_copied, 0);
  EXPECT_EQ(session.counters().output_bytes_copied, 0);
}

TEST(Session, CallsTheCallbackOncePerOutput) {
  Session session(plan_of(kPlain));
  int calls = 0;
  Tensor memory(ElementType::f32, {2, 2});
  const OutputCallback callback = [&](int, ElementType, std::span<const int64_t> dims) {
    ++calls;
    EXPECT_EQ(Dims(dims.begin(), dims.end()), (Dims{2, 2}));
    return memory.view();
  };
  RunOptions options;
  options.callback = &callback;
  const std::vector<Box> inputs{Box{floats({2, 2}, {1, 2, 3, 4})},
                                Box{floats({2, 2}, {1, 0, 0, 1})}};
  session.run(inputs, options);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(Box{memory}), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Session, SupportsOneBufferAsPastAndPresent) {
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
  EXPECT_EQ(session.counters().input_bytes_copied, 0);
  EXPECT_EQ(session.counters().output_bytes_copied, 0);
}

TEST(Session, SixteenThreadsOverOneStatelessPlanHaveTheSameBits) {
  Session shared(plan_of(kPlain));
  std::vector<float> x(2 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.37F - 3.0F;
  const std::vector<Box> inputs{Box{floats({64, 2}, x)},
                                Box{floats({2, 2}, {0.1F, 0.2F, 0.3F, 0.4F})}};
  const std::vector<float> expected = values(shared.run(inputs)[0]);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (values(shared.run(inputs)[0]) != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Session, SixteenSessionsOverOnePlanAreIndependent) {
  const auto plan = plan_of(kStates, "ref", state_pairs());
  std::vector<std::vector<float>> results(16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      Session session(plan);
      for (int i = 0; i < 20; ++i) {
        const std::vector<Box> inputs = step(static_cast<float>(i), i);
        results[static_cast<size_t>(t)] = values(session.run(inputs)[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // 0 + 1 + … + 19, and the window's last two rows plus the new one.
  for (const auto& result : results) {
    EXPECT_EQ(result, (std::vector<float>{190 + 54, -190 - 54}));
  }
}

TEST(Session, RefusesASecondThreadUndamagedIfItHasStates) {
  Session session(plan_of(kStates, "sim", state_pairs()));
  const std::vector<Box> inputs = step(1, 0);
  std::atomic<int> refused{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        try {
          session.run(inputs);
          ++done;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused, 0);
  EXPECT_GT(done, 0);
  EXPECT_EQ(session.length("past"), done);
}

TEST(Session, ChargesBorrowedScratchToTheSessionThatRuns) {
  const auto plan = plan_of(kPlain);
  Session large(plan);
  const std::vector<Box> wide{Box{floats({4096, 2}, std::vector<float>(8192, 1.0F))},
                              Box{floats({2, 2}, {1, 0, 0, 1})}};
  large.run(wide);
  EXPECT_EQ(large.memory().used(), 0);  // the results are released, the scratch is the plan's
  EXPECT_GE(large.memory().peak(), 2 * 8192 * 4);
  // The idle scratch of the plan exceeds this session's limit, which suffices for its own.
  Session small(plan, {.memory_limit = 4096, .warn = {}});
  const std::vector<Box> narrow{Box{floats({2, 2}, {1, 2, 3, 4})},
                                Box{floats({2, 2}, {1, 0, 0, 1})}};
  EXPECT_EQ(values(small.run(narrow)[0]), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_LE(small.memory().peak(), 4096);
  try {
    small.run(wide);
    ADD_FAILURE() << "expected the memory limit to be exceeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
  }
  EXPECT_EQ(small.memory().used(), 0);
}

TEST(Session, TenThousandOfAStatelessPlanShareItsScratch) {
  const auto plan = plan_of(kPlain);
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 10000; ++i) sessions.push_back(std::make_unique<Session>(plan));
  const std::vector<Box> inputs{Box{floats({1, 2}, {3, 4})}, Box{floats({2, 2}, {1, 0, 0, 1})}};
  for (const auto& session : sessions) {
    EXPECT_EQ(values(session->run(inputs)[0]), (std::vector<float>{3, 4}));
    EXPECT_EQ(session->memory().used(), 0);
  }
}

class FailingRuns : public testing::TestWithParam<std::string> {};

// A run that is cancelled, fails or exceeds the memory limit changes no state.
TEST_P(FailingRuns, PreserveStatesOfEveryKind) {
  const auto plan = plan_of(kStates, GetParam(), state_pairs());
  Session reference(plan);
  Session session(plan);
  CancelToken cancel;
  for (int i = 0; i < 12; ++i) {
    const auto value = static_cast<float>(i + 1);
    RunOptions cancelled;
    cancel.cancel();
    cancelled.cancel = &cancel;
    const std::vector<Box> good = step(value, i);
    const std::vector<Box> bad = step(value * 7, 100);  // gather fails after the appends
    EXPECT_THROW(session.run(good, cancelled), Error);
    EXPECT_THROW(session.run(bad), Error);
    RunOptions late;
    late.deadline = Clock::now();
    EXPECT_THROW(session.run(good, late), Error);
    EXPECT_EQ(session.length("past"), i);
    EXPECT_EQ(values(session.run(good)[0]), values(reference.run(good)[0])) << "step " << i;
    EXPECT_EQ(session.length("past"), i + 1);
    EXPECT_EQ(session.length("near"), std::min(i + 1, 2));
  }
}

TEST_P(FailingRuns, PreserveStatesWhenTheMemoryLimitIsExceeded) {
  const auto plan = plan_of(kStates, GetParam(), state_pairs());
  Session session(plan, {.memory_limit = 16 * 1024, .warn = {}});
  Session reference(plan);
  for (int i = 0; i < 5; ++i) {
    const std::vector<Box> good = step(static_cast<float>(i), i);
    const std::vector<float> expected = values(reference.run(good)[0]);
    const std::vector<Box> large{Box{floats({4096, 2}, std::vector<float>(8192, 1.0F))}, good[1]};
    try {
      session.run(large);
      ADD_FAILURE() << "expected the memory limit to be exceeded";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
    }
    EXPECT_EQ(session.length("past"), i);
    EXPECT_EQ(values(session.run(good)[0]), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FailingRuns, testing::Values("ref", "sim"),
                         [](const auto& test) { return test.param; });

TEST(Session, StopsAtTheNextLaunchWhenCancelledFromAnotherThread) {
  Session session(plan_of(R"(program "endless" stage imported {
    symbol carried bound 0..*
    module @main(%x: f32[1]) {
      %y = loop(_, _, %x) {carried = 1, body = @body}
      return %y as "y"
    }
    module @body(%i: i64[], %go: bool[], %a: f32[1]) {
      %yes = literal bool[] {true}
      %b = add(%a, %a)
      return %yes as "yes", %b as "b"
    }
  })"));
  CancelToken cancel;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel.cancel();
  });
  RunOptions options;
  options.cancel = &cancel;
  const std::vector<Box> inputs{Box{floats({1}, {1})}};
  try {
    session.run(inputs, options);
    ADD_FAILURE() << "expected an Interrupted error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::interrupted);
  }
  other.join();
}

TEST(Session, WarnsOnceIfASharedSymbolHasDifferentValues) {
  const auto plan = plan_of(R"(program "shared" stage imported {
    symbol n bound 0..*
    module @main(%x: f32[n], %y: f32[n]) {
      %z = concat(%x, %y) {axis = 0}
      return %z as "z"
    }
  })");
  int warnings = 0;
  Session session(plan, {.warn = [&](std::string_view text) {
                    ++warnings;
                    EXPECT_NE(text.find("input 'y': axis 0 has size 1"), std::string_view::npos)
                        << text;
                  }});
  const std::vector<Box> inputs{Box{floats({2}, {1, 2})}, Box{floats({1}, {3})}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values(session.run(inputs)[0]).size(), 3U);
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(plan->compilations, 2);
}

TEST(Session, ForksAndTruncatesItsStates) {
  const auto plan = plan_of(kStates, "ref", state_pairs());
  Session session(plan);
  for (int i = 0; i < 3; ++i) session.run(step(static_cast<float>(i), i));
  Session fork(plan);
  fork.copy_states_from(session);
  EXPECT_EQ(values(fork.run(step(5, 3))[0]), values(session.run(step(5, 3))[0]));
  session.truncate(1);
  EXPECT_EQ(session.length("past"), 1);
  EXPECT_EQ(fork.length("past"), 4);
  session.reset();
  EXPECT_EQ(session.length("past"), 0);
  EXPECT_EQ(values(session.run(step(2, 0))[0]), (std::vector<float>{4, -4}));
}

// Allocates until it is sealed.
class SealedAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    EXPECT_FALSE(sealed) << bytes << " bytes were allocated";
    return host_allocator().allocate(bytes, alignment);
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    host_allocator().deallocate(pointer, bytes);
  }
  bool sealed = false;
};

TEST(Session, AllocatesOnlyWhenACapacityChanges) {
  const auto plan = plan_of(kStates, "ref", state_pairs());
  SealedAllocator allocator;
  Session session(plan, {.allocator = &allocator, .warn = {}});
  Tensor out(ElementType::f32, {2});
  const std::vector<Tensor> outputs{out};
  RunOptions options;
  options.outputs = outputs;
  std::vector<Box> results(1);
  for (int i = 0; i < 100; ++i) {
    const std::vector<Box> inputs = step(static_cast<float>(i), i);
    const int64_t layouts = session.counters().layouts;
    allocator.sealed = i > 4 && i != capacity_for(i);
    session.run(inputs, results, options);
    if (allocator.sealed) EXPECT_EQ(session.counters().layouts, layouts) << "step " << i;
    allocator.sealed = false;
  }
}

}  // namespace
}  // namespace lathe
