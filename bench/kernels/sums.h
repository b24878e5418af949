// SPDX-License-Identifier: MIT
// What cases say together: the convolutions of a network one after another, and pairs.
#pragma once

#include <string>
#include <vector>

#include "bench/kernels/measure.h"

namespace lathe::bench {

// Cases that have a peer, each counted as often as it occurs.
struct Sum {
  std::string name;  // "resnet50's convolutions, direct"
  std::string type;
  int64_t count = 0;
  double ours = 0;  // seconds
  double theirs = 0;
  Interval ratio;           // theirs / ours
  int64_t extra_bytes = 0;  // of packed weights over what they are in the file
  int64_t left_out = 0;     // cases without a measured peer
};

// For each network and type its convolutions; of ResNet-50 in f32 also with those that choose
// Winograd's form in the direct one, and with all weights from memory. Then the pairs of each
// network: `ratio` is the mean of theirs.
std::vector<Sum> sums_of(const std::vector<Outcome>& outcomes);

}  // namespace lathe::bench
