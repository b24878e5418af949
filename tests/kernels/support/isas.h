// SPDX-License-Identifier: MIT
// Instruction sets with kernels, and those that this machine supports.
#pragma once

#include <vector>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu::test {

inline std::vector<Isa> known_isas() {
  std::vector<Isa> out;
  for (int i = 0; i < kIsaCount; ++i) out.push_back(static_cast<Isa>(i));
  return out;
}

// Without AVX-512 VNNI where BF16 runs, too: its kernels are those of the sets beside it.
inline std::vector<Isa> host_isas() {
  std::vector<Isa> out = known_isas();
  std::erase_if(out, [](Isa isa) {
    return !host_supports(isa) || (isa == Isa::avx512_vnni && host_supports(Isa::avx512_bf16));
  });
  return out;
}

// Assigns random cases to instruction sets, round-robin.
inline Isa isa_for_case(int64_t index) {
  static const std::vector<Isa> all = host_isas();
  return all[static_cast<size_t>(index) % all.size()];
}

}  // namespace lathe::cpu::test
