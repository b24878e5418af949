// SPDX-License-Identifier: MIT
// The instruction sets that there are kernels for, and those that this machine runs.
#pragma once

#include <vector>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu::test {

inline std::vector<Isa> known_isas() {
  std::vector<Isa> out;
  for (int i = 0; i < kIsaCount; ++i) out.push_back(static_cast<Isa>(i));
  return out;
}

inline std::vector<Isa> host_isas() {
  std::vector<Isa> out = known_isas();
  std::erase_if(out, [](Isa isa) { return !host_supports(isa); });
  return out;
}

// Random cases take turns: each runs on one of them.
inline Isa turn_of(int64_t number) {
  static const std::vector<Isa> all = host_isas();
  return all[static_cast<size_t>(number) % all.size()];
}

}  // namespace lathe::cpu::test
