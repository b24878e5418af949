// SPDX-License-Identifier: MIT
// The driver `host`: device code runs on the CPU. The threads of a block are fibers, which change
// at barriers; a fault of order shows when threads run in another one.
#pragma once

#include <memory>

#include "targets/gpu/driver/driver.h"

namespace lathe::gpu {

enum class ThreadOrder : uint8_t { ascending, descending, random };

// What the loads and stores of kernels touched.
struct Traffic {
  int64_t needed_bytes = 0;     // of the elements
  int64_t sectors = 0;          // of 32 bytes, each once per wave and access
  int64_t shared_accesses = 0;  // of waves
  int64_t shared_ways = 0;      // their conflicts: 1 per access without one
};

struct HostDriverOptions {
  int wave = 32;  // or 64
  ThreadOrder order = ThreadOrder::ascending;
  uint64_t seed = 1;  // of random orders
  int64_t memory_bytes = int64_t{64} << 30;
  bool libraries = false;  // opens the vendor's, which tests replace
};

// Unsupported on processors without a body for fibers.
std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options = {});

// Live blocks of a host driver's memory, streams, events, graphs and modules: 0 when all is given
// back.
int64_t live_objects(const Driver& host);
// Bytes that a host driver has copied between memory of the host and its own, so far.
int64_t crossed_bytes(const Driver& host);

}  // namespace lathe::gpu
