// SPDX-License-Identifier: MIT
// Between the measurements and our kernels: a file for each kind of problem.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "bench/kernels/problem.h"

namespace lathe::bench {

// A problem made ready: weights packed, operands filled as inputs.h says, once per rotation.
class Ready {
 public:
  virtual ~Ready() = default;
  virtual void run(int64_t count) = 0;      // that many executions, rotating
  virtual std::vector<float> result() = 0;  // of one execution, plain row-major
  // Element i of the result with its terms added without rounding, where that is known.
  virtual std::optional<double> exact(size_t) const { return std::nullopt; }
  virtual std::string_view isa() const = 0;  // of the kernel that runs
  // Bytes per second of a plain read of what the next executions would read, from memory; 0 where
  // that is no measure of them.
  virtual double read_rate() { return 0; }
  virtual int64_t extra_bytes() const { return 0; }  // packed weights beyond the weights' own size
};

// Error(unsupported) with the reason where there is no kernel for the problem.
struct Adapter {
  std::string_view kind;
  std::unique_ptr<Ready> (*prepare)(const Problem& problem, ThreadPool& pool);
};
std::span<const Adapter> adapters();  // adapters.cpp
std::unique_ptr<Ready> make_ready(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
