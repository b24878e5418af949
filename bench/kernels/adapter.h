// SPDX-License-Identifier: MIT
// Lathe's side of a case: one file per kind of problem.
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

// A prepared problem: packed weights, and operands of inputs.h, one copy per rotation.
class Ready {
 public:
  virtual ~Ready() = default;
  virtual void run(int64_t count) = 0;      // executions, on rotating operands
  virtual std::vector<float> result() = 0;  // of one execution, row-major
  // Element i of the result with exact accumulation, if known.
  virtual std::optional<double> exact(size_t) const { return std::nullopt; }
  virtual std::string_view isa() const = 0;  // of the kernel
  // Bytes per second of a sequential read, from memory, of the next executions' operands; 0 for
  // problems that are not memory-bound.
  virtual double read_rate() { return 0; }
  virtual int64_t extra_bytes() const { return 0; }  // packed weights minus unpacked weights
};

// `prepare` throws Error(unsupported) with the reason if no kernel supports the problem.
struct Adapter {
  std::string_view kind;
  std::unique_ptr<Ready> (*prepare)(const Problem& problem, ThreadPool& pool);
};
std::span<const Adapter> adapters();  // adapters.cpp
std::unique_ptr<Ready> make_ready(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
