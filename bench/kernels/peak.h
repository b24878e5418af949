// SPDX-License-Identifier: MIT
// Limits of the machine: operations per second in registers, bytes per second from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace lathe::bench {

struct Peak {
  std::string type;  // "f32", "bf16", "int8"
  std::string isa;   // cpu::to_string
  double rate = 0;   // operations per second of all threads
};

// Best of several short runs for each supported instruction set.
std::vector<Peak> measure_peaks(int threads);
// Current operations per second of a pool's threads, measured for about `seconds`. Uses the fastest
// instruction set if `isa` has no loop for the type; 0 if none has.
double measure_peak(const std::string& type, const std::string& isa, ThreadPool& pool,
                    double seconds);
double fastest(const std::vector<Peak>& peaks, const std::string& type);

// Reads all parts sequentially in one region; each thread reads a share of every part.
void read_memory(std::span<const std::span<const std::byte>> parts, ThreadPool& pool);

// Bytes per second of a sequential read of `bytes` of memory by all threads, best of several.
double measure_read_bandwidth(int threads, int64_t bytes);

}  // namespace lathe::bench
