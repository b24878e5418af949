// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/epilogue.h"

#include "targets/cpu/kernels/gemm/epilogue_table.h"

namespace lathe::cpu {

FinishTile finish_tile(Isa isa) {
  return isa >= Isa::avx512 ? finish_tile_avx512 : finish_tile_avx2;
}

}  // namespace lathe::cpu
