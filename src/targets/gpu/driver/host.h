// SPDX-License-Identifier: MIT
// The driver `host`: device code runs on the CPU. The threads of a block are fibers, which change
// at barriers; a fault of order shows when threads run in another one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "targets/gpu/driver/driver.h"
#include "targets/gpu/driver/host_traffic.h"

namespace lathe::gpu {

enum class ThreadOrder : uint8_t { ascending, descending, random };

struct HostDriverOptions {
  int wave = 32;  // or 64
  ThreadOrder order = ThreadOrder::ascending;
  uint64_t seed = 1;  // of random orders
  int64_t memory_bytes = int64_t{64} << 30;
  bool libraries = false;  // opens the vendor's, which tests replace
  bool count = false;      // what kernels touch
  int multiprocessors = 4;
  // Blocks of a launch that run at most, at even distances, for counts alone; 0: all.
  int64_t most_blocks = 0;
};

// Unsupported on processors without a body for fibers.
std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options = {});

// Live blocks of a host driver's memory, streams, events, graphs and modules: 0 when all is given
// back.
int64_t live_objects(const Driver& host);
// Bytes that a host driver has copied between memory of the host and its own, so far.
int64_t crossed_bytes(const Driver& host);
// What the launches so far touched, by kernel, if the driver counts.
std::map<std::string, Traffic> traffic(const Driver& host);
void clear_traffic(Driver& host);

}  // namespace lathe::gpu
