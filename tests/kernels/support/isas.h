// SPDX-License-Identifier: MIT
// The instruction sets that this machine runs.
#pragma once

#include <vector>

#include "targets/cpu/kernels/isa.h"

namespace lathe::cpu::test {

inline std::vector<Isa> host_isas() {
  std::vector<Isa> out;
  for (int i = 0; i < kIsaCount; ++i) {
    if (host_supports(static_cast<Isa>(i))) out.push_back(static_cast<Isa>(i));
  }
  return out;
}

}  // namespace lathe::cpu::test
