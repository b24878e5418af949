// SPDX-License-Identifier: MIT
// The simulated device with other delays: a fault of order shows under some seed.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "targets/sim/target.h"

namespace lathe::test {

inline constexpr std::array<uint64_t, 3> kSimSeeds{20240229, 7, 3000017};

// One target per kind and seed, for the life of the program: plans refer to its device.
inline std::shared_ptr<const Target> sim_target(bool mixed, uint64_t seed) {
  static std::map<std::pair<bool, uint64_t>, std::shared_ptr<const Target>> targets;
  auto& target = targets[{mixed, seed}];
  if (target == nullptr) target = std::make_shared<SimTarget>(mixed, seed);
  return target;
}

}  // namespace lathe::test
