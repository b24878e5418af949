// SPDX-License-Identifier: MIT
// What this machine reaches at most, measured by the best of several ways: programs are compared
// with it, so none may exceed it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "targets/target.h"

namespace lathe::cli {

// Launches of a device before one wait, where a run of one takes `one` seconds: enough that the
// rest of a run hardly counts.
inline int64_t launches_for(double one) {
  constexpr double kSeconds = 10e-3;
  constexpr double kLeast = 8;
  constexpr double kMost = 64;
  return kSeconds / one < kLeast ? 1 : static_cast<int64_t>(std::min(kSeconds / one, kMost));
}

// The seconds of a run that are not its launches': `one` are those of a run of one launch, `all`
// those of `launches`.
inline double seconds_beside(double one, double all, int64_t launches) {
  if (launches < 2) return 0;
  return std::clamp(one - (all - one) / static_cast<double>(launches - 1), 0.0, all / 2);
}

// Bytes per second of all threads reading a buffer of `bytes` (16 to 256 MiB) again and again: sums
// over one stretch or over eight at once, with and without prefetch, and on `target` products of
// one row in f32 and in the compute types `computes`. On a device many launches follow each other,
// and what a run takes besides them does not count.
class BandwidthMeter {
 public:
  // Measures every way, which takes about a second.
  BandwidthMeter(const std::shared_ptr<const Target>& target, const std::set<std::string>& computes,
                 int64_t bytes, ThreadPool& pool);
  double best() const { return best_; }
  // What the best way reaches now: bandwidth may change within a second where other machines share
  // the memory. Takes 30 ms, or three readings.
  double measure() const;

 private:
  // `beside`: seconds of a reading that do not count.
  void try_way(double bytes, double seconds, std::function<void()> read, double beside);
  void add_sums(size_t bytes, ThreadPool& pool);

  double best_ = 0;
  double bytes_ = 0;  // of one reading
  double beside_ = 0;
  std::function<void()> read_;
};

// BandwidthMeter::best().
double measure_bandwidth(const std::shared_ptr<const Target>& target,
                         const std::set<std::string>& computes, int64_t bytes, ThreadPool& pool);

// Multiplications per second of large products with constant weights, the best of several shapes,
// compiled for the target with compute type "int8", "bf16" or "f32": with the best instructions for
// it, AMX where the processor has it.
double measure_products(const std::shared_ptr<const Target>& target, std::string_view compute,
                        ThreadPool& pool);

}  // namespace lathe::cli
