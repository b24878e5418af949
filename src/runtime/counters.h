// SPDX-License-Identifier: MIT
// Counters of the executor, for tests and profiles.
#pragma once

#include <cstdint>

namespace lathe {

struct Counters {
  int64_t runs = 0;
  int64_t launches = 0;
  int64_t input_bytes_copied = 0;   // inputs copied to a layout that kernels accept
  int64_t output_bytes_copied = 0;  // results copied to the caller's memory
  int64_t state_bytes_copied = 0;   // committed content of states that was moved
  int64_t layouts = 0;              // arena layouts computed, on capacity changes
  int64_t late_compilations = 0;    // instructions compiled for new ranks
};

}  // namespace lathe
