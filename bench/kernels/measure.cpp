// SPDX-License-Identifier: MIT
#include "bench/kernels/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/os_process.h"
#include "bench/kernels/memory.h"
#include "bench/kernels/peak.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A peer's threads spin after its last region, ONNX Runtime's for 30 ms. The next measurement waits
// for them, up to a limit. GOMP_SPINCOUNT below shortens the spin.
constexpr auto kCalm = std::chrono::milliseconds(1);
constexpr int kMaxCalm = 500;
constexpr const char* kSpinCount = "20000";

// Permitted error: largest |a - b| over largest |b|.
double limit_of(const Problem& p) {
  if (p.kind == "matmul_n_bits") return 1e-6;
  if (p.type == "f32") return 1e-4;
  // One rounding of bf16; one int8 step.
  return p.type == "bf16" ? 1.0 / 128 : 1.0 / 100;
}

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> out(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), out.size() * sizeof(float), reinterpret_cast<char*>(out.data()));
  return out;
}

int64_t count_for(double seconds_of_two, double target_seconds) {
  const double one = std::max(1e-7, seconds_of_two / 2);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(target_seconds / one)), 1, 100000);
}

}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// Mean and 95 % interval of the logarithms, by Student's t-distribution.
Interval interval_of(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  constexpr double kQuantiles[] = {0,     12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
  const auto n = static_cast<double>(samples.size());
  double sum = 0;
  for (const double x : samples) sum += std::log(x);
  const double mean = sum / n;
  double squares = 0;
  for (const double x : samples) squares += (std::log(x) - mean) * (std::log(x) - mean);
  const size_t freedom = std::min(samples.size() - 1, std::size(kQuantiles) - 1);
  const double spread = freedom == 0 ? 0 : kQuantiles[freedom] * std::sqrt(squares / (n - 1) / n);
  return {std::exp(mean), std::exp(mean - spread), std::exp(mean + spread)};
}

double Outcome::peak_share() const {
  std::vector<double> shares;
  for (size_t i = 0; i < peaks.size(); ++i)
    shares.push_back(what.problem.flops() / ours[i] / peaks[i]);
  return shares.empty() ? 0 : median(shares);
}

double Outcome::best_peak_share() const { return best_peak > 0 ? rate() / best_peak : 0; }

double Outcome::read_share() const {
  std::vector<double> shares;
  for (size_t i = 0; i < reads.size(); ++i) {
    const double rate = static_cast<double>(what.problem.bytes()) / ours[i];
    shares.push_back(reads[i] > 0 ? rate / reads[i] : 0);
  }
  return shares.empty() ? 0 : median(shares);
}

Interval Outcome::ratio() const {
  std::vector<double> ratios;
  for (size_t i = 0; i < theirs.size(); ++i) ratios.push_back(theirs[i] / ours[i]);
  return interval_of(ratios);
}

Measurer::Measurer(const MeasureOptions& options) : options_(options), pool_(options.threads) {
  file_ = (std::filesystem::temp_directory_path() / fmt::format("lathe-bench-{}", getpid()));
  start_peers();
}

Measurer::~Measurer() { std::filesystem::remove(file_); }

void Measurer::start_peers() {
  const std::filesystem::path folder = std::filesystem::path(own_program()).parent_path();
  const std::string threads = std::to_string(options_.threads);
  const auto start = [&](const std::vector<std::string>& kinds,
                         const std::vector<std::string>& arguments) {
    if (!std::filesystem::exists(arguments.front())) return;
    try {
      Peer peer;
      peer.process = std::make_unique<Process>(
          arguments,
          std::vector<std::pair<std::string, std::string>>{{"OMP_NUM_THREADS", threads},
                                                           {"GOMP_SPINCOUNT", kSpinCount},
                                                           {kMallocVariable, kMallocSettings}});
      peer.kinds = kinds;
      peers_.push_back(std::move(peer));
    } catch (const Error& error) {
      fmt::print(stderr, "skipping a peer: {}\n", error.message());
    }
  };
  const std::vector<std::string> dense{"matmul", "conv", "lstm", "gru"};
  start(dense, {(folder / "bench_onednn2").string()});
  start(dense, {(folder / "bench_onednn3").string()});
  const auto source = folder.parent_path().parent_path().parent_path();
  start({"matmul_n_bits", "lstm", "gru"},
        {(source / "build/venv/bin/python").string(),
         (source / "bench/kernels/onnxruntime_peer.py").string(), threads});
}

std::vector<std::string> Measurer::peers() const {
  std::vector<std::string> names;
  for (const Peer& peer : peers_) names.push_back(peer.process->greeting());
  return names;
}

double Measurer::time_ours(int64_t count) {
  const auto begin = Clock::now();
  ready_->run(count);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Measurer::time_peer(Peer& peer, int64_t count) {
  const std::string answer = peer.process->request(fmt::format("run {}", count));
  int waits = 0;
  do {
    std::this_thread::sleep_for(kCalm);
  } while (peer.process->is_running() && ++waits < kMaxCalm);
  return std::stod(answer) * 1e-9;
}

void Measurer::prepare_peers(const Problem& problem) {
  for (Peer& peer : peers_) {
    peer.seconds.clear();
    peer.active = peer.supports(problem.kind);
    if (!peer.active) continue;
    const std::string answer = peer.process->request("prepare " + problem.line());
    peer.active = answer.starts_with("ok");
    peer.implementation = answer.substr(std::min<size_t>(3, answer.size()));
  }
}

// The largest difference to any peer. An element beyond the limit passes if it is within the limit
// of exact accumulation, so that the error is the peer's; the report contains both errors.
double Measurer::compare(const Problem& problem) {
  const std::vector<float> own = ready_->result();
  const double limit = limit_of(problem);
  double worst = 0;
  for (Peer& peer : peers_) {
    if (!peer.active) continue;
    const std::string answer = peer.process->request("result " + file_);
    check(answer == "ok", ErrorKind::io, "{}: expected 'ok', got '{}'", peer.process->greeting(),
          answer);
    const std::vector<float> theirs = read_floats(file_);
    check(theirs.size() == own.size(), ErrorKind::internal, "got {} elements, {} has {}",
          own.size(), peer.process->greeting(), theirs.size());
    double largest = 1e-30;
    for (const float x : theirs) largest = std::max<double>(largest, std::abs(x));
    double error = 0;  // of the peer and of ours, for elements beyond the limit
    double own_error = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      check(!std::isnan(own[i]), ErrorKind::internal, "element {} is NaN, expected {}", i,
            theirs[i]);
      const double difference = std::abs(own[i] - theirs[i]) / largest;
      worst = std::max(worst, difference);
      if (difference <= limit) continue;
      const std::optional<double> exact = ready_->exact(i);
      check(exact && std::abs(own[i] - *exact) <= limit * largest, ErrorKind::internal,
            "results differ by {:.2g}, expected at most {:.2g}", difference, limit);
      error = std::max(error, std::abs(theirs[i] - *exact) / largest);
      own_error = std::max(own_error, std::abs(own[i] - *exact) / largest);
    }
    if (error > 0) {
      peer.implementation +=
          fmt::format(", error {:.2g} to exact accumulation (ours {:.2g})", error, own_error);
    }
  }
  return worst;
}

bool Measurer::begin(const Case& what) {
  outcome_ = {};
  outcome_.what = what;
  outcome_.threads = options_.threads;
  ready_.reset();
  try {
    ready_ = make_ready(what.problem, pool_);
    outcome_.isa = ready_->isa();
    outcome_.extra_bytes = ready_->extra_bytes();
    prepare_peers(what.problem);
    outcome_.error = compare(what.problem);
  } catch (const Error& error) {
    outcome_.problem = error.message();
    return false;
  }
  time_ours(1);
  count_ = count_for(std::min(time_ours(2), time_ours(2)), options_.sample_seconds);
  for (Peer& peer : peers_) {
    if (!peer.active) continue;
    time_peer(peer, 1);
    const double seconds = std::min(time_peer(peer, 2), time_peer(peer, 2));
    peer.count = count_for(seconds, options_.sample_seconds);
  }
  round_ = 0;
  return true;
}

// Measures the peak between slices of a sample, so that other load on the machine affects both
// equally. Short separate samples of the peak would miss load during a long sample of ours.
void Measurer::sample_ours() {
  constexpr int64_t kSlices = 4;
  constexpr double kMaxPeakSeconds = 0.01;  // of a slice
  time_ours(1);                             // wakes the threads: a peer's are awake too
  const int64_t slices = std::min(kSlices, count_);
  double seconds = 0, peak = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t count = count_ * (i + 1) / slices - count_ * i / slices;
    const double taken = time_ours(count);
    seconds += taken;
    const double rate = measure_peak(outcome_.what.problem.type, outcome_.isa, pool_,
                                     std::min(taken / 2, kMaxPeakSeconds));
    peak += rate / static_cast<double>(slices);
    outcome_.best_peak = std::max(outcome_.best_peak, rate);
  }
  outcome_.ours.push_back(seconds / static_cast<double>(count_));
  outcome_.peaks.push_back(peak);
  outcome_.reads.push_back(ready_->read_rate());
}

// The first engine changes from round to round.
double Measurer::alternate() {
  const auto engines = static_cast<int64_t>(peers_.size()) + 1;
  for (int64_t i = 0; i < engines; ++i) {
    const int64_t engine = (i + round_) % engines;
    if (engine == 0) {
      sample_ours();
      continue;
    }
    Peer& peer = peers_[static_cast<size_t>(engine - 1)];
    if (!peer.active) continue;
    peer.seconds.push_back(time_peer(peer, peer.count) / static_cast<double>(peer.count));
  }
  ++round_;
  return outcome_.ours.back();
}

Outcome Measurer::finish() {
  const Peer* fastest = nullptr;
  for (const Peer& peer : peers_) {
    if (!peer.active || peer.seconds.empty()) continue;
    if (fastest == nullptr || median(peer.seconds) < median(fastest->seconds)) fastest = &peer;
  }
  if (fastest != nullptr) {
    outcome_.peer = fastest->process->greeting() + " " + fastest->implementation;
    outcome_.theirs = fastest->seconds;
  }
  ready_.reset();
  return outcome_;
}

}  // namespace lathe::bench
