// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_compact_kernel.h"

namespace lathe::cpu {

constinit const CompactTable kCompactAvx512 = make_compact_table();

}  // namespace lathe::cpu
