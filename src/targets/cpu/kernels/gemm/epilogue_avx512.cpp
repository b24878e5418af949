// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/epilogue_kernel.h"
#include "targets/cpu/kernels/gemm/epilogue_table.h"

namespace lathe::cpu {

void finish_tile_avx512(const Epilogue& epilogue, const EpilogueTile& tile) {
  finish(epilogue, tile);
}

}  // namespace lathe::cpu
