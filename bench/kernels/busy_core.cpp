// SPDX-License-Identifier: MIT
// ResNet-50's convolutions one after the other on two threads while a foreign process keeps one of
// the two cores busy, beside the same without it: ours and oneDNN's in turns.
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
constexpr double kBar = 2.3;            // of ours
constexpr double kSampleSeconds = 0.1;  // many times a scheduler's slice of 3 ms
constexpr auto kCalm = std::chrono::milliseconds(3);

struct Settings {
  std::string graphs = "../shared/graphs";
  std::string type;
  int alternations = 9;
};

// This process and those that it starts run on the first `count` of its processors, of which the
// last is returned.
int use_processors(int count) {
  cpu_set_t all, some;
  sched_getaffinity(0, sizeof all, &all);
  check(CPU_COUNT(&all) >= count, ErrorKind::unsupported, "{} cores, this measures on {}",
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

// A process that computes on one core while it is let.
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

  void let(bool run) { kill(process_, run ? SIGCONT : SIGSTOP); }
  double seconds() const {  // that it computed for
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

// Whoever runs all convolutions.
struct Party {
  std::string name;
  std::function<double(int64_t)> run;  // seconds of so many rounds
  int64_t count = 1;
  std::vector<double> quiet, busy;     // seconds of a round
  double taken = 0, busy_seconds = 0;  // by the foreign process, of those it was let run
};

// Our kernels, with operands in memory.
class Own {
 public:
  Own(const std::vector<Case>& cases, ThreadPool& pool) {
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

// oneDNN of one version in a process of its own; null where it is not there or refuses a case.
std::unique_ptr<Process> start_peer(const std::string& name, const std::vector<Case>& cases) {
  const auto folder = std::filesystem::path(own_program()).parent_path().parent_path() / "bin";
  const std::string program = (folder / name).string();
  if (!std::filesystem::exists(program)) return nullptr;
  auto peer = std::make_unique<Process>(
      std::vector{program},
      std::vector<std::pair<std::string, std::string>>{
          {"OMP_NUM_THREADS", std::to_string(kThreads)}, {"GOMP_SPINCOUNT", "20000"}});
  for (const Case& c : cases) {
    const std::string answer = peer->ask(fmt::format("add {} {}", c.count, c.problem.line()));
    if (answer.starts_with("ok")) continue;
    fmt::print(stderr, "without {}: {}\n", peer->greeting(), answer);
    return nullptr;
  }
  return peer;
}

void sample(Party& party, Spinner& spinner, bool busy) {
  spinner.let(busy);
  // Wakes the threads, and lets the system place them anew.
  party.run(std::max<int64_t>(1, party.count / 2));
  const double before = spinner.seconds();
  const double seconds = party.run(party.count);
  if (busy) {
    party.taken += spinner.seconds() - before;
    party.busy_seconds += seconds;
  }
  spinner.let(false);
  std::this_thread::sleep_for(kCalm);
  (busy ? party.busy : party.quiet).push_back(seconds / static_cast<double>(party.count));
}

void print_row(const std::string& type, const Party& party, bool own) {
  std::vector<double> ratios;
  for (size_t i = 0; i < party.quiet.size(); ++i) ratios.push_back(party.busy[i] / party.quiet[i]);
  const Interval ratio = interval_of(ratios);
  const std::string bar =
      !own ? "" : fmt::format("<= {}, {}", kBar, ratio.mean <= kBar ? "held" : "missed");
  // Where other processes run too, the quiet runs are not all quiet: beside their fastest.
  const double most =
      median(party.busy) / *std::min_element(party.quiet.begin(), party.quiet.end());
  fmt::print("{:<5} {:<32} {:>9.2f} {:>9.2f} {:>6.2f} ({:.2f}-{:.2f}) {:>8.2f} {:>8.0f} % {}\n",
             type, party.name, median(party.quiet) * 1e3, median(party.busy) * 1e3, ratio.mean,
             ratio.low, ratio.high, most, 100 * party.taken / party.busy_seconds, bar);
  std::fflush(stdout);
}

void measure(const std::vector<Case>& cases, const Settings& settings, Spinner& spinner,
             const std::string& type) {
  ThreadPool pool(kThreads);
  Own own(cases, pool);
  std::vector<Party> parties(1);
  parties[0].name = "lathe";
  parties[0].run = [&](int64_t count) { return own.run(count); };
  std::vector<std::unique_ptr<Process>> peers;
  for (const char* name : {"bench_onednn2", "bench_onednn3"}) {
    std::unique_ptr<Process> peer = start_peer(name, cases);
    if (peer == nullptr) continue;
    parties.emplace_back();
    parties.back().name = peer->greeting();
    parties.back().run = [&process = *peer](int64_t count) {
      return std::stod(process.ask(fmt::format("run {}", count))) * 1e-9;
    };
    peers.push_back(std::move(peer));
  }
  for (Party& party : parties) {
    party.run(1);
    party.count = std::max<int64_t>(1, std::llround(kSampleSeconds / party.run(1)));
  }
  for (int turn = 0; turn < settings.alternations; ++turn) {
    for (size_t i = 0; i < parties.size(); ++i) {
      Party& party = parties[(i + static_cast<size_t>(turn)) % parties.size()];
      sample(party, spinner, turn % 2 == 0);
      sample(party, spinner, turn % 2 != 0);
    }
  }
  for (const Party& party : parties) print_row(type, party, &party == parties.data());
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
      "ResNet-50's convolutions, {} threads; busy: another process computes on core 2 of 2.\n"
      "With three halves of the cores used in full the ratio would be 1.33, on one core alone 2.\n"
      "{:<5} {:<32} {:>9} {:>9} {:>18} {:>8} {:>10}\n",
      kThreads, "type", "", "quiet ms", "busy ms", "busy / quiet", "fastest", "it takes");
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
