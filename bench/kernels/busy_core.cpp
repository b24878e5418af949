// SPDX-License-Identifier: MIT
// ResNet-50's convolutions in sequence on two threads, with and without another process that
// occupies one of the two cores. Lathe and oneDNN alternate.
//
//   bench_busy_core [--graphs=FOLDER] [--alternations=N] [--type=T]
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/os_process.h"
#include "bench/kernels/adapter.h"
#include "bench/kernels/cases.h"
#include "bench/kernels/measure.h"
#include "bench/kernels/process.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 2;
constexpr double kMaxRatio = 2.3;       // of Lathe: busy / quiet
constexpr double kSampleSeconds = 0.1;  // long compared to a 3 ms time slice
constexpr auto kCalm = std::chrono::milliseconds(3);

struct Settings {
  std::string graphs = "../shared/graphs";
  std::string type;
  int alternations = 9;
};

// Restricts this process and its children to its first `count` processors and returns the last one.
int use_processors(int count) {
  cpu_set_t all, some;
  sched_getaffinity(0, sizeof all, &all);
  check(CPU_COUNT(&all) >= count, ErrorKind::unsupported, "got {} cores, expected at least {}",
        CPU_COUNT(&all), count);
  CPU_ZERO(&some);
  int last = 0;
  for (int processor = 0; count > 0; ++processor) {
    if (!CPU_ISSET(processor, &all)) continue;
    CPU_SET(processor, &some);
    last = processor;
    --count;
  }
  sched_setaffinity(0, sizeof some, &some);
  return last;
}

// A process that occupies one core while it is running.
class Spinner {
 public:
  explicit Spinner(int core) : process_(fork()) {
    check(process_ >= 0, ErrorKind::io, "cannot start a process for core {}", core);
    if (process_ == 0) spin(core);
    kill(process_, SIGSTOP);
    clock_getcpuclockid(process_, &clock_);
  }
  ~Spinner() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  void set_running(bool run) { kill(process_, run ? SIGCONT : SIGSTOP); }
  double seconds() const {  // CPU time
    timespec time{};
    clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

 private:
  [[noreturn]] static void spin(int core) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (volatile uint64_t count = 0;; count = count + 1) {
    }
  }

  pid_t process_;
  clockid_t clock_{};
};

// Runs all convolutions.
struct Engine {
  std::string name;
  std::function<double(int64_t)> run;  // seconds of `count` rounds
  int64_t count = 1;
  std::vector<double> quiet, busy;     // seconds of a round
  double taken = 0, busy_seconds = 0;  // CPU and wall time of the other process
};

// Lathe's kernels, with operands in memory.
class LatheEngine {
 public:
  LatheEngine(const std::vector<Case>& cases, ThreadPool& pool) {
    for (const Case& c : cases) parts_.push_back({make_ready(c.problem, pool), c.count});
  }
  double run(int64_t rounds) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < rounds; ++i) {
      for (const Part& part : parts_) part.ready->run(part.times);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  struct Part {
    std::unique_ptr<Ready> ready;
    int64_t times;
  };
  std::vector<Part> parts_;
};

// Starts a oneDNN peer; null if it is not installed or refuses a case.
std::unique_ptr<Process> start_peer(const std::string& name, const std::vector<Case>& cases) {
  const auto folder = std::filesystem::path(own_program()).parent_path().parent_path() / "bin";
  const std::string program = (folder / name).string();
  if (!std::filesystem::exists(program)) return nullptr;
  auto peer = std::make_unique<Process>(
      std::vector{program},
      std::vector<std::pair<std::string, std::string>>{
          {"OMP_NUM_THREADS", std::to_string(kThreads)}, {"GOMP_SPINCOUNT", "20000"}});
  for (const Case& c : cases) {
    const std::string answer = peer->request(fmt::format("add {} {}", c.count, c.problem.line()));
    if (answer.starts_with("ok")) continue;
    fmt::print(stderr, "skipping {}: {}\n", peer->greeting(), answer);
    return nullptr;
  }
  return peer;
}

void sample(Engine& engine, Spinner& spinner, bool busy) {
  spinner.set_running(busy);
  // Wakes the threads and lets the scheduler place them.
  engine.run(std::max<int64_t>(1, engine.count / 2));
  const double before = spinner.seconds();
  const double seconds = engine.run(engine.count);
  if (busy) {
    engine.taken += spinner.seconds() - before;
    engine.busy_seconds += seconds;
  }
  spinner.set_running(false);
  std::this_thread::sleep_for(kCalm);
  (busy ? engine.busy : engine.quiet).push_back(seconds / static_cast<double>(engine.count));
}

void print_row(const std::string& type, const Engine& engine, bool own) {
  std::vector<double> ratios;
  for (size_t i = 0; i < engine.quiet.size(); ++i)
    ratios.push_back(engine.busy[i] / engine.quiet[i]);
  const Interval ratio = interval_of(ratios);
  const std::string bar =
      !own ? "" : fmt::format("<= {}, {}", kMaxRatio, ratio.mean <= kMaxRatio ? "held" : "missed");
  // Other processes may disturb the quiet runs: also print the ratio to the fastest one.
  const double most =
      median(engine.busy) / *std::min_element(engine.quiet.begin(), engine.quiet.end());
  fmt::print("{:<5} {:<32} {:>9.2f} {:>9.2f} {:>6.2f} ({:.2f}-{:.2f}) {:>8.2f} {:>8.0f} % {}\n",
             type, engine.name, median(engine.quiet) * 1e3, median(engine.busy) * 1e3, ratio.mean,
             ratio.low, ratio.high, most, 100 * engine.taken / engine.busy_seconds, bar);
  std::fflush(stdout);
}

void measure(const std::vector<Case>& cases, const Settings& settings, Spinner& spinner,
             const std::string& type) {
  ThreadPool pool(kThreads);
  LatheEngine own(cases, pool);
  std::vector<Engine> engines(1);
  engines[0].name = "lathe";
  engines[0].run = [&](int64_t count) { return own.run(count); };
  std::vector<std::unique_ptr<Process>> peers;
  for (const char* name : {"bench_onednn2", "bench_onednn3"}) {
    std::unique_ptr<Process> peer = start_peer(name, cases);
    if (peer == nullptr) continue;
    engines.emplace_back();
    engines.back().name = peer->greeting();
    engines.back().run = [&process = *peer](int64_t count) {
      return std::stod(process.request(fmt::format("run {}", count))) * 1e-9;
    };
    peers.push_back(std::move(peer));
  }
  for (Engine& engine : engines) {
    engine.run(1);
    engine.count = std::max<int64_t>(1, std::llround(kSampleSeconds / engine.run(1)));
  }
  for (int turn = 0; turn < settings.alternations; ++turn) {
    for (size_t i = 0; i < engines.size(); ++i) {
      Engine& engine = engines[(i + static_cast<size_t>(turn)) % engines.size()];
      sample(engine, spinner, turn % 2 == 0);
      sample(engine, spinner, turn % 2 != 0);
    }
  }
  for (const Engine& engine : engines) print_row(type, engine, &engine == engines.data());
}

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(std::min(word.size(), word.find('=') + 1));
    if (word.starts_with("--graphs=")) {
      settings.graphs = value;
    } else if (word.starts_with("--alternations=")) {
      settings.alternations = std::stoi(value);
    } else if (word.starts_with("--type=")) {
      settings.type = value;
    } else {
      fmt::print(stderr, "unknown flag '{}'\n", word);
      return 2;
    }
  }
  std::vector<Case> cases = cases_of_graph(settings.graphs + "/resnet50.onnx");
  std::erase_if(cases, [](const Case& c) { return c.problem.kind != "conv"; });
  Spinner spinner(use_processors(kThreads));
  fmt::print(
      "ResNet-50's convolutions, {} threads; busy: another process occupies core 2 of 2.\n"
      "Expected ratios: 1.33 with one and a half cores, 2 with one core.\n"
      "{:<5} {:<32} {:>9} {:>9} {:>18} {:>8} {:>10}\n",
      kThreads, "type", "", "quiet ms", "busy ms", "busy / quiet", "fastest", "other");
  for (const char* type : {"f32", "bf16", "int8"}) {
    if (!settings.type.empty() && settings.type != type) continue;
    measure(with_type(cases, type), settings, spinner, type);
  }
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  try {
    return lathe::bench::main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
