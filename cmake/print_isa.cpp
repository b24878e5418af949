// SPDX-License-Identifier: MIT
// Prints the best instruction set of this processor, for LATHE_ISA=host.
#include <array>
#include <cstdio>

#include "targets/cpu/kernels/simd/isa.h"

int main() {
  using lathe::cpu::Isa;
  constexpr std::array kNames{"avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"};
  for (size_t i = kNames.size(); i-- > 0;) {
    if (lathe::cpu::host_supports(static_cast<Isa>(i))) {
      std::fputs(kNames[i], stdout);
      return 0;
    }
  }
  return 1;
}
