// SPDX-License-Identifier: MIT
// What the machine can do now: operations per second in registers, bytes per second from memory.
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
  std::string isa;   // as cpu::to_string spells it
  double rate = 0;   // operations per second of all threads
};

// Of every instruction set that this machine has, the best of several short runs.
std::vector<Peak> measure_peaks(int threads);
// What the threads of a pool can do at this very moment, over about so many seconds. Of the fastest
// instruction set where `isa` has no loop for the type; 0 where none has.
double measure_peak(const std::string& type, const std::string& isa, ThreadPool& pool,
                    double seconds);
double fastest(const std::vector<Peak>& peaks, const std::string& type);

// A plain read by the threads of a pool in one region, each a share of every part.
void read_memory(std::span<const std::span<const std::byte>> parts, ThreadPool& pool);

// A plain read of `bytes` of memory by all threads, the best of several, in bytes per second.
double measure_read_bandwidth(int threads, int64_t bytes);

}  // namespace lathe::bench
