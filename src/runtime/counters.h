// SPDX-License-Identifier: MIT
// What the executor counts, for tests and profiles.
#pragma once

#include <cstdint>

namespace lathe {

struct Counters {
  int64_t runs = 0;
  int64_t launches = 0;
  int64_t input_bytes_copied = 0;   // of callers' inputs, to bring them where kernels want them
  int64_t output_bytes_copied = 0;  // results that had to be moved to the caller's memory
  int64_t state_bytes_copied = 0;   // committed content of states that had to be moved
  int64_t layouts = 0;              // arenas laid out anew because a capacity changed
  int64_t late_compilations = 0;    // modules compiled for a rank first seen
};

}  // namespace lathe
