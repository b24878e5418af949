// SPDX-License-Identifier: MIT
// Lathe's kernels against oneDNN and the machine's peak, in alternation.
//
//   bench_kernels [--quick] [--json] [--graphs=FOLDER] [--threads=N] [--type=T]
//                 [--source=NAME[,NAME...]] [--alternations=N]
//
// --quick takes at most 45 seconds: the most expensive shapes, with one thread per core. Other
// flags are Google Benchmark's (--benchmark_filter=REGEX selects cases).
#include <benchmark/benchmark.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/os_process.h"
#include "bench/kernels/memory.h"
#include "bench/kernels/report.h"
#include "bench/kernels/weight_only.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  bool quick = false;
  bool json = false;
  std::string graphs = "../shared/graphs";
  std::string type;
  std::set<std::string, std::less<>> sources;  // empty: all
  int threads = 0;

  int rounds = 0;  // 0: by `quick`

  int alternations() const { return rounds > 0 ? rounds : quick ? 5 : 9; }
  double sample_seconds() const { return quick ? 0.003 : 0.008; }
};

constexpr double kQuickSeconds = 30;  // no case starts later
constexpr double kMaxPeakDrift = 0.05;
constexpr int kRepeats = 2;
constexpr double kShortfall = 0.95;  // a case whose interval is below is measured again
constexpr int64_t kReadBytes = int64_t{1} << 30;

// Restricts this process and its peers to its first `count` processors.
void use_processors(const cpu_set_t& all, int count) {
  cpu_set_t some;
  CPU_ZERO(&some);
  for (int processor = 0; processor < CPU_SETSIZE && count > 0; ++processor) {
    if (!CPU_ISSET(processor, &all)) continue;
    CPU_SET(processor, &some);
    --count;
  }
  sched_setaffinity(0, sizeof some, &some);
}

// Prints one line on standard error per finished case.
class Progress final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) {
        fmt::print(stderr, "{}: {}\n", run.benchmark_name(), run.error_message);
        continue;
      }
      const auto ratio = run.counters.find("ratio");
      fmt::print(
          stderr, "{}: {:.1f} us{}\n", run.benchmark_name(), run.GetAdjustedRealTime(),
          ratio == run.counters.end() ? "" : fmt::format(", ratio {:.2f}", ratio->second.value));
    }
  }
};

class Program {
 public:
  explicit Program(const Settings& settings) : settings_(settings) {}

  Session run(int threads) {
    session_ = {};
    session_.threads = threads;
    const MeasureOptions options{threads, settings_.alternations(), settings_.sample_seconds()};
    Measurer measurer(options);
    session_.peers = measurer.peers();
    for (int attempt = 0; attempt <= kRepeats; ++attempt) {
      session_.peaks = measure_peaks(threads);
      session_.outcomes.clear();
      run_cases(measurer);
      const std::vector<Peak> after = measure_peaks(threads);
      session_.peaks_moved = moved(session_.peaks, after);
      if (!session_.peaks_moved || settings_.quick) break;
      fmt::print(stderr, "the measured peak changed by more than {} %: repeating\n",
                 100 * kMaxPeakDrift);
    }
    return std::move(session_);
  }

 private:
  static bool moved(const std::vector<Peak>& before, const std::vector<Peak>& after) {
    for (size_t i = 0; i < before.size(); ++i) {
      if (std::abs(after[i].rate / before[i].rate - 1) > kMaxPeakDrift) return true;
    }
    return false;
  }

  std::vector<Case> cases() const {
    std::vector<Case> all;
    const auto add = [&](std::vector<Case> some) {
      all.insert(all.end(), some.begin(), some.end());
    };
    std::vector<Case> dense = square_cases();
    std::vector<Case> graphs = cases_of_graphs(settings_.graphs);
    dense.insert(dense.end(), graphs.begin(), graphs.end());
    if (!settings_.quick) {
      for (const Case& c : language_model_cases(128)) dense.push_back(c);
    }
    for (const char* type : {"f32", "bf16", "int8"}) {
      if (!settings_.type.empty() && settings_.type != type) continue;
      add(with_type(dense, type));
      if (type == std::string_view("f32") && !settings_.quick) add(convolutions_again(dense));
      if (settings_.quick) continue;
      add(with_type(attention_cases(), type));
      if (type == std::string_view("f32")) add(recurrent_cases());
    }
    if (!settings_.quick && (settings_.type.empty() || settings_.type == "int8")) {
      add(weight_only_cases(512));
      add(weight_only_cases(1));
    }
    for (const std::string& source : settings_.sources) {
      const bool known =
          std::any_of(all.begin(), all.end(), [&](const Case& c) { return c.source == source; });
      check(known, ErrorKind::invalid_argument, "unknown source '{}'", source);
    }
    std::erase_if(all, [&](const Case& c) {
      // GEMMs of two activations are measured in f32 and bf16 only.
      const bool odd =
          c.problem.type == "int8" && c.problem.kind == "matmul" && c.problem["weights"] == 0;
      const bool long_square = settings_.quick && c.source == "square" && c.problem["m"] > 1024;
      return odd || long_square ||
             (!settings_.sources.empty() && !settings_.sources.contains(c.source));
    });
    if (settings_.quick) heaviest_first(all);
    return all;
  }

  // The time limit skips the last cases.
  static void heaviest_first(std::vector<Case>& cases) {
    const auto weight = [](const Case& c) {
      const double own = c.problem.flops() * static_cast<double>(c.count);
      return c.source == "square" ? own * 1e6 : own;
    };
    std::sort(cases.begin(), cases.end(), [&](const Case& a, const Case& b) {
      if (weight(a) != weight(b)) return weight(a) > weight(b);
      return a.problem.line() < b.problem.line();
    });
  }

  void run_cases(Measurer& measurer) {
    benchmark::ClearRegisteredBenchmarks();
    const Clock::time_point begin = Clock::now();
    const std::vector<Case> all = cases();
    session_.outcomes.reserve(all.size() * 4);
    for (const Case& c : all) {
      const std::string name = c.source + "/" + c.problem.line();
      benchmark::RegisterBenchmark(
          name.c_str(),
          [this, &measurer, c, begin](benchmark::State& state) {
            const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
            if (settings_.quick && passed > kQuickSeconds) {
              state.SkipWithError("time limit of --quick");
              return;
            }
            measure(measurer, c, state);
          })
          ->Iterations(settings_.alternations())
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
    Progress progress;
    benchmark::RunSpecifiedBenchmarks(&progress);
  }

  void measure(Measurer& measurer, const Case& c, benchmark::State& state) {
    if (!measurer.begin(c)) {
      session_.outcomes.push_back(measurer.finish());
      state.SkipWithError(session_.outcomes.back().problem.c_str());
      return;
    }
    for (auto _ : state) state.SetIterationTime(measurer.alternate());
    Outcome outcome = measurer.finish();
    for (int again = 0; again < kRepeats && falls_short(outcome) && !settings_.quick; ++again) {
      if (!measurer.begin(c)) break;
      for (int i = 0; i < settings_.alternations(); ++i) measurer.alternate();
      Outcome other = measurer.finish();
      if (other.ratio().mean > outcome.ratio().mean) outcome = std::move(other);
    }
    if (outcome.has_peer()) state.counters["ratio"] = outcome.ratio().mean;
    session_.outcomes.push_back(std::move(outcome));
  }

  static bool falls_short(const Outcome& outcome) {
    return outcome.has_peer() && outcome.ratio().high < kShortfall;
  }

  const Settings& settings_;
  Session session_;
};

Settings parse(int& argc, char** argv) {
  Settings settings;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&](std::string_view name, std::string& to) {
      const bool is = word.starts_with(name);
      if (is) to = word.substr(name.size());
      return is;
    };
    std::string number, names;
    if (word == "--quick") {
      settings.quick = true;
    } else if (word == "--json") {
      settings.json = true;
    } else if (value("--threads=", number)) {
      settings.threads = static_cast<int>(std::stol(number));
    } else if (value("--alternations=", number)) {
      settings.rounds = static_cast<int>(std::stol(number));
    } else if (value("--source=", names)) {
      for (size_t begin = 0; begin <= names.size();) {
        const size_t end = std::min(names.find(',', begin), names.size());
        settings.sources.insert(names.substr(begin, end - begin));
        begin = end + 1;
      }
    } else if (!value("--graphs=", settings.graphs) && !value("--type=", settings.type)) {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return settings;
}

// Decode of Llama-1B with weights from memory, against sequential reads.
nlohmann::ordered_json weight_streams(const Settings& settings, int threads) {
  nlohmann::ordered_json out;
  for (const int64_t block : {32, 128}) {
    const WeightStream s = measure_weight_stream(threads, block, settings.alternations());
    if (!settings.json) {
      fmt::print(
          "int4 weights from memory, blocks of {}, {} threads, {}: {:.1f} GB/s, read {:.1f} "
          "GB/s, ratio {:.3f} ({:.3f}-{:.3f})\n",
          block, threads, s.isa, s.ours * 1e-9, s.read * 1e-9, s.share, s.low, s.high);
    }
    out.push_back({{"block", block},
                   {"isa", s.isa},
                   {"gb_per_s", s.ours * 1e-9},
                   {"read_gb_per_s", s.read * 1e-9},
                   {"ratio", {s.share, s.low, s.high}}});
  }
  return out;
}

// Re-executes the program with the malloc settings, which glibc reads only at startup.
void settle_malloc(char** argv) {
  constexpr const char* kAgain = "LATHE_BENCH_BEGUN_AGAIN";
  const char* settings = std::getenv(kMallocVariable);
  if (settings != nullptr && std::string_view(settings) == kMallocSettings) return;
  check(std::getenv(kAgain) == nullptr, ErrorKind::io, "cannot set {}", kMallocVariable);
  setenv(kAgain, "1", 1);
  setenv(kMallocVariable, kMallocSettings, 1);
  execv(own_program().c_str(), argv);
  fail(ErrorKind::io, "cannot restart '{}'", escape(own_program()));
}

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  const int most = settings.threads > 0 ? settings.threads : std::min(2, CPU_COUNT(&all));
  nlohmann::ordered_json json;
  std::vector<int> counts{most};
  if (!settings.quick && settings.threads == 0 && most > 1) counts.push_back(1);
  for (const int threads : counts) {
    use_processors(all, threads);
    Program program(settings);
    Session session = program.run(threads);
    if (!settings.quick) session.read_bandwidth = measure_read_bandwidth(threads, kReadBytes);
    if (!settings.json) fmt::print("{}\n", table(session));
    nlohmann::ordered_json own = to_json(session, !settings.quick);
    if (!settings.quick && (settings.type.empty() || settings.type == "int8")) {
      own["weight_stream"] = weight_streams(settings, threads);
    }
    if (threads == most) {
      json = std::move(own);
    } else {
      json[fmt::format("{}_threads", threads)] = std::move(own);
    }
    use_processors(all, CPU_COUNT(&all));
  }
  if (settings.json) fmt::print("{}\n", json.dump());
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  try {
    lathe::bench::settle_malloc(argv);
    return lathe::bench::main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
