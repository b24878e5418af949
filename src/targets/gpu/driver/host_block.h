// SPDX-License-Identifier: MIT
// Runs the threads of one block of a kernel that was compiled for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "targets/gpu/driver/host.h"

namespace lathe::gpu {

// The next two structures are those of kernels/prelude.gpu.
struct HostThread {
  uint32_t thread = 0;
  uint32_t threads = 0;  // of the block
  uint32_t wave = 0;     // its width
  uint32_t block[3] = {};
  uint32_t grid[3] = {};
};
struct HostCalls {
  const HostThread* (*self)();
  void (*barrier)();
  void (*wave_barrier)();
  void* (*shared)(uint32_t slot, uint64_t bytes);
  void* (*exchange)();
  void (*fault)(const char* message);
  void (*access)(const void* address, uint32_t bytes, uint32_t kind);  // if the driver counts
};
const HostCalls& host_calls();

using HostKernel = void (*)(const void* arguments);

class BlockRunner {
 public:
  explicit BlockRunner(const HostDriverOptions& options);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs all blocks of a grid. Device if a thread faults.
  void run(HostKernel kernel, const void* arguments, const std::array<uint32_t, 3>& grid,
           uint32_t threads);
  const Traffic& traffic() const { return counter_.traffic(); }  // of the last run, if counted

 private:
  struct Fiber;
  friend struct HostCallsBody;
  void run_block();
  bool release_waiting();
  void resume(Fiber& fiber);
  void yield(int state);
  static void start();
  void* stack();

  HostDriverOptions options_;
  std::mt19937_64 random_;
  TrafficCounter counter_;
  std::vector<Fiber> fibers_;
  std::vector<uint32_t> order_;
  std::vector<void*> stacks_;  // all
  std::vector<void*> spare_;
  std::vector<std::vector<std::byte>> shared_;    // by slot
  std::vector<bool> shared_used_;                 // in this block
  std::vector<std::vector<std::byte>> exchange_;  // per wave
  HostThread common_;
  HostKernel kernel_ = nullptr;
  const void* arguments_ = nullptr;
  Fiber* current_ = nullptr;
  void* scheduler_ = nullptr;  // its stack pointer
  std::string fault_;
};

}  // namespace lathe::gpu
