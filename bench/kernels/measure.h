// SPDX-License-Identifier: MIT
// Measures a case against its peers: compares outputs, then times engines in alternation.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/adapter.h"
#include "bench/kernels/cases.h"
#include "bench/kernels/process.h"

namespace lathe::bench {

// A mean with its 95 % interval.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};
Interval interval_of(const std::vector<double>& samples);
double median(std::vector<double> samples);

struct Outcome {
  Case what;
  int threads = 0;
  std::string isa;           // of our kernel
  std::string peer;          // the fastest: "oneDNN 3.2.0 avx512_core_amx brg:avx512_core_amx"
  std::vector<double> ours;  // seconds of one execution, per alternation
  std::vector<double> theirs;
  std::vector<double> peaks;  // operations per second in registers, between slices of each of ours
  double best_peak = 0;       // best of the samples averaged in `peaks`
  std::vector<double> reads;  // bytes per second of a sequential read after each of ours; or 0
  double error = 0;           // largest |a - b| over largest |b|
  int64_t extra_bytes = 0;
  std::string problem;  // why the case was not measured; else empty

  bool measured() const { return problem.empty(); }
  bool has_peer() const { return !theirs.empty(); }
  Interval ratio() const;  // theirs / ours
  double seconds() const { return median(ours); }
  double rate() const { return what.problem.flops() / seconds(); }
  double peak_share() const;       // median over alternations
  double best_peak_share() const;  // of best_peak
  double read_share() const;       // median over alternations
};

struct MeasureOptions {
  int threads = 1;
  int alternations = 9;
  double sample_seconds = 0.008;
};

// Measures cases with one number of threads. Peers are child processes that live as long as this.
class Measurer {
 public:
  explicit Measurer(const MeasureOptions& options);
  ~Measurer();
  const MeasureOptions& options() const { return options_; }
  std::vector<std::string> peers() const;  // "oneDNN 3.2.0 avx512_core_amx"

  // Separate steps, so that Google Benchmark counts the alternations. `begin` returns false, with
  // the reason in the outcome, if the case cannot be timed; `alternate` returns our seconds.
  bool begin(const Case& what);
  double alternate();
  Outcome finish();

 private:
  struct Peer {
    std::unique_ptr<Process> process;
    std::vector<std::string> kinds;  // supported kinds of problems
    bool supports(const std::string& kind) const {
      return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    }
    std::string implementation;
    bool active = false;
    int64_t count = 1;
    std::vector<double> seconds;
  };
  void start_peers();
  void prepare_peers(const Problem& problem);
  double compare(const Problem& problem);
  double time_ours(int64_t count);
  void sample_ours();
  double time_peer(Peer& peer, int64_t count);

  MeasureOptions options_;
  ThreadPool pool_;
  std::vector<Peer> peers_;
  std::unique_ptr<Ready> ready_;
  int64_t count_ = 1;
  int64_t round_ = 0;
  std::string file_;
  Outcome outcome_;
};

}  // namespace lathe::bench
