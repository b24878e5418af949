// SPDX-License-Identifier: MIT
// What this machine reaches at most, measured by the best of several ways: programs are compared
// with it, so none may exceed it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "targets/target.h"

namespace lathe::cli {

// Bytes per second of all threads reading a buffer of `bytes` (16 to 256 MiB) again and again: sums
// over one stretch or over eight at once, with and without prefetch, and on `target` products of
// one row in f32 and in the compute types `computes`.
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
  void try_way(double bytes, double seconds, std::function<void()> read);
  void add_sums(size_t bytes, ThreadPool& pool);

  double best_ = 0;
  double bytes_ = 0;  // of one reading
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
