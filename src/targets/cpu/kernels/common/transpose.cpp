// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/common/transpose.h"

#include "targets/cpu/kernels/common/transpose_table.h"

namespace lathe::cpu {

void transpose_matrix(int element_bytes, const void* from, int64_t from_pitch, void* to,
                      int64_t to_pitch, int64_t rows, int64_t columns) {
  const TransposeTable& table = kTransposeAvx2;
  const auto run = element_bytes == 1   ? table.bytes1
                   : element_bytes == 2 ? table.bytes2
                                        : table.bytes4;
  run(from, from_pitch, to, to_pitch, rows, columns);
}

}  // namespace lathe::cpu
