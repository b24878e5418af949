// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/vector_ops.h"

#include "targets/cpu/kernels/elementwise/vector_ops_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const VectorOps kVectorOpsAvx2, kVectorOpsAvx512;

const VectorOps& vector_ops(Isa isa) {
  return *in_build(isa >= Isa::avx512 ? &kVectorOpsAvx512 : &kVectorOpsAvx2, isa);
}

void convert_elements(const VectorOps& ops, ElementType to, void* dst, ElementType from,
                      const void* src, int64_t count, const ConvertOptions& options) {
  using enum ElementType;
  if (from == f32 && (to == bf16 || to == f16)) {
    const auto narrow = to == bf16 ? ops.to_bf16 : ops.to_f16;
    narrow(static_cast<const float*>(src), static_cast<uint16_t*>(dst), count);
  } else if (to == f32 && (from == bf16 || from == f16)) {
    const auto widen = from == bf16 ? ops.from_bf16 : ops.from_f16;
    widen(static_cast<const uint16_t*>(src), static_cast<float*>(dst), count);
  } else {
    convert(to, dst, from, src, count, options);
  }
}

}  // namespace lathe::cpu
