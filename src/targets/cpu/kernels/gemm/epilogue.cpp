// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/epilogue.h"

#include "targets/cpu/kernels/gemm/epilogue_table.h"

namespace lathe::cpu {

// Absent from builds for one kind of processor.
[[gnu::weak]] void finish_tile_avx2(const Epilogue& epilogue, const EpilogueTile& tile);
[[gnu::weak]] void finish_tile_avx512(const Epilogue& epilogue, const EpilogueTile& tile);

FinishTile finish_tile(Isa isa) {
  return in_build(isa >= Isa::avx512 ? finish_tile_avx512 : finish_tile_avx2, isa);
}

}  // namespace lathe::cpu
