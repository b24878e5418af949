// SPDX-License-Identifier: MIT
// Totals over the cases of a network: its convolutions.
#pragma once

#include <string>
#include <vector>

#include "bench/kernels/measure.h"

namespace lathe::bench {

// The total of cases with a peer, weighted by their occurrences.
struct Total {
  std::string name;  // "resnet50's convolutions, direct"
  std::string type;
  int64_t count = 0;
  double ours = 0;  // seconds
  double theirs = 0;
  Interval ratio;           // theirs / ours
  int64_t extra_bytes = 0;  // packed weights minus unpacked weights
  int64_t left_out = 0;     // cases without a measured peer
};

// One total per network and type: its convolutions. For ResNet-50 in f32 also in the direct form
// instead of Winograd, and with cold weights.
std::vector<Total> totals_of(const std::vector<Outcome>& outcomes);

}  // namespace lathe::bench
