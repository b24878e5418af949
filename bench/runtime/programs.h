// SPDX-License-Identifier: MIT
// Rows over made programs: launches, sessions, callers, memory of data-dependent shapes.
#pragma once

#include <thread>

#include "base/os_thread.h"
#include "bench/runtime/heap.h"
#include "bench/runtime/line.h"
#include "bench/runtime/settings.h"
#include "bench/runtime/time.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
// Absent where a session serves any number of threads.
class SharedSession;
}  // namespace lathe

namespace lathe::bench {

constexpr int64_t kAdds = 1100;

// Adds its two inputs to a running sum, in turn.
inline std::string chain_text(int64_t adds) {
  std::string text =
      "program \"chain\" stage imported {\n  module @main(%a: f32[4, 4], %b: f32[4, 4]) {\n"
      "    %v0 = add(%a, %b)\n";
  for (int64_t i = 1; i < adds; ++i) {
    text += fmt::format("    %v{} = add(%v{}, %{})\n", i, i - 1, i % 2 == 0 ? "a" : "b");
  }
  return text + fmt::format("    return %v{} as \"y\"\n  }}\n}}\n", adds - 1);
}

inline std::vector<Box> chain_inputs() {
  std::vector<Box> inputs;
  for (const float step : {1.0F, 3.0F}) {
    Tensor x(ElementType::f32, {4, 4});
    for (int i = 0; i < 16; ++i) x.as<float>()[i] = step * static_cast<float>(i - 8);
    inputs.push_back({std::move(x)});
  }
  return inputs;
}

// The sums are integers below 2^24, thus exact.
inline void check_chain(std::span<const Box> results, int64_t adds = kAdds) {
  for (int i = 0; i < 16; ++i) {
    // The first add takes both inputs, the others one each, b first.
    const auto expected = static_cast<float>((i - 8) * (1 + (adds - 1) / 2 + 3 * (1 + adds / 2)));
    const float got = results[0].tensor().as<float>()[i];
    check(got == expected, ErrorKind::internal, "element {} of {} adds is {}, expected {}", i, adds,
          got, expected);
  }
}

// One launch for each add.
inline std::shared_ptr<const Plan> chain_plan(const Settings& settings, int64_t adds = kAdds) {
  CompileOptions options{.target = settings.target};
  options.passes.substitute = [](const Pass& pass) -> std::optional<Pass> {
    if (pass.name != "fuse_regions") return std::nullopt;
    Pass none = pass;
    none.run = [](Program&) { return false; };
    return none;
  };
  return compile(parse_program(chain_text(adds)), options);
}

inline Lines measure_launches(const Settings& settings) {
  Session session(chain_plan(settings));
  const std::vector<Box> inputs = chain_inputs();
  std::vector<Box> results(1);
  session.run(inputs, results, {});
  check_chain(results);
  check(session.counters().launches == kAdds, ErrorKind::internal, "{} adds are {} launches", kAdds,
        session.counters().launches);
  const double seconds = fastest([&] { session.run(inputs, results, {}); });
  check_chain(results);
  return {{"", fmt::format("launch, in a chain of {} adds of f32[4, 4]", kAdds),
           1e9 * seconds / kAdds, "ns", false, false, hash_of(results)}};
}

inline Lines measure_sessions(const Settings& settings) {
  constexpr int64_t kSessions = 10000, kShort = 100;
  const std::shared_ptr<const Plan> plan = chain_plan(settings, kShort);
  const std::vector<Box> inputs = chain_inputs();
  std::vector<Box> results(1);
  std::vector<std::unique_ptr<Session>> sessions(kSessions);
  Session(plan).run(inputs, results, {});  // what a plan keeps from its first session is not theirs
  const int64_t before = heap_bytes();
  constexpr int64_t kTimed = 100;  // at a time
  double seconds = std::numeric_limits<double>::max();
  for (size_t begin = 0; begin < sessions.size(); begin += kTimed) {
    seconds = std::min(seconds, seconds_of([&] {
                         for (auto& session : std::span(sessions).subspan(begin, kTimed)) {
                           session = std::make_unique<Session>(plan);
                         }
                       }));
  }
  const int64_t bytes = heap_bytes() - before;
  for (const size_t i : {size_t{0}, sessions.size() / 2, sessions.size() - 1}) {
    sessions[i]->run(inputs, results, {});
    check_chain(results, kShort);
  }
  const std::string what =
      fmt::format("each of {} sessions of a chain of {} adds", kSessions, kShort);
  return {{"", "memory of " + what, static_cast<double>(bytes) / kSessions, "bytes", true},
          {"", "creation of " + what, 1e6 * seconds / kTimed, "us"}};
}

// Runs per second of `callers` threads, one per core from core `first` on.
template <class AnySession>
double runs_per_second(AnySession& session, int callers, int first) {
  constexpr auto kTime = std::chrono::milliseconds(10);  // other processes miss some of many
  std::atomic<int> ready{0};
  std::atomic<int64_t> runs{0};
  std::vector<std::jthread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      pin_this_thread(first + caller);
      const std::vector<Box> inputs = chain_inputs();
      std::vector<Box> results(1);
      session.run(inputs, results, {});
      ready.fetch_add(1);
      while (ready.load() < callers) pause_briefly();
      const auto end = std::chrono::steady_clock::now() + kTime;
      int64_t own = 0;
      for (; std::chrono::steady_clock::now() < end; ++own) session.run(inputs, results, {});
      check_chain(results);
      runs.fetch_add(own);
    });
  }
  threads.clear();
  return static_cast<double>(runs) / std::chrono::duration<double>(kTime).count();
}

template <class T>
concept Complete = requires { sizeof(T); };

inline Lines measure_callers(const Settings& settings) {
  if (available_cores() < 2) return {};
  std::conditional_t<Complete<SharedSession>, SharedSession, Session> session(chain_plan(settings));
  double one = 0, two = 0;
  for (int round = 0; round < 40; ++round) {
    one = std::max(one, runs_per_second(session, 1, round % 2));
    two = std::max(two, runs_per_second(session, 2, 0));
  }
  return {{"", "runs of 2 callers of one session, against 1 caller; one core each", two / one, "x",
           false, true}};
}

// Each round ends in a shape that only its values determine, and begins with values of the last.
inline Lines measure_found_shapes(const Settings& settings) {
  constexpr int64_t kFloats = int64_t{1} << 20, kRounds = 8, kNegative = 3;
  std::string text = "program \"rounds\" stage imported {\n", body, results_text;
  for (int64_t i = 0; i < kRounds; ++i) {
    const std::string from = i == 0 ? "x" : fmt::format("v{}", i - 1);
    text += fmt::format("  symbol nonzero{} found 0..*\n", i);
    body += fmt::format(
        "    %a{0} = relu(%{1})\n    %b{0} = neg(%a{0})\n    %v{0} = relu(%b{0})\n"
        "    %c{0} = cast(%v{0}) {{to = bool}}\n    %n{0} = nonzero(%c{0})\n",
        i, from);
    results_text += fmt::format("{}%n{} as \"n{}\"", i == 0 ? "" : ", ", i, i);
  }
  text += fmt::format("  module @main(%x: f32[{}]) {{\n{}    return {}\n  }}\n}}\n", kFloats, body,
                      results_text);
  Session session(compile(parse_program(text), {.target = settings.target}));
  Tensor x(ElementType::f32, {kFloats});
  for (int64_t i = 0; i < kFloats; ++i) x.as<float>()[i] = i % kNegative == 0 ? -1.0F : 1.0F;
  const std::vector<Box> inputs(1, Box{x});
  std::vector<Box> results(kRounds);
  for (int run = 0; run < 3; ++run) session.run(inputs, results, {});
  for (const Box& result : results) {
    check(result.tensor().dims() == Dims{1, 0}, ErrorKind::internal,
          "nonzero of zeros is {}, expected i64[1, 0]",
          to_string(result.tensor().type(), result.tensor().dims()));
  }
  return {{"", "session of 8 rounds of relu, neg, relu, cast to bool, nonzero over 2^20 floats",
           1e-6 * static_cast<double>(session.memory().peak()), "MB", true}};
}

}  // namespace lathe::bench
