// SPDX-License-Identifier: MIT
// Functions exported by the per-ISA sources of the epilogue.
#pragma once

#include "targets/cpu/kernels/gemm/epilogue.h"

namespace lathe::cpu {

void finish_tile_avx2(const Epilogue& epilogue, const EpilogueTile& tile);
void finish_tile_avx512(const Epilogue& epilogue, const EpilogueTile& tile);

}  // namespace lathe::cpu
