// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/quantize_ops.h"

#include "targets/cpu/kernels/elementwise/quantize_ops_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const QuantizeOps kQuantizeOpsAvx2, kQuantizeOpsAvx512;

const QuantizeOps& quantize_ops(Isa isa) {
  return *in_build(isa >= Isa::avx512 ? &kQuantizeOpsAvx512 : &kQuantizeOpsAvx2, isa);
}

}  // namespace lathe::cpu
