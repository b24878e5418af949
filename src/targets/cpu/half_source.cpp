// SPDX-License-Identifier: MIT
#include "targets/cpu/half_source.h"

#include "ir/ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {

std::optional<HalfSource> half_source(const Instruction& matmul) {
  constexpr size_t kB = 1;
  if (matmul.op() != ops::matmul && matmul.op() != ops::gemm) return std::nullopt;
  const bool f32 = element_of(matmul, 0) == ElementType::f32 &&
                   element_of(matmul, kB) == ElementType::f32 &&
                   attribute<std::string>(matmul, "compute_type").empty();
  if (!f32) return std::nullopt;
  HalfSource source;
  bool casts = false;
  const Instruction* made = matmul.operands()[kB]->definition();
  for (; made != nullptr && made->deferred(); made = made->operands()[0]->definition()) {
    if (made->op() == ops::transpose && made->operands()[0]->type().rank() == 2) {
      const auto order = attribute<std::vector<int64_t>>(*made, "permutation");
      source.transposed ^= order.empty() || order == std::vector<int64_t>{1, 0};
    } else if (made->op() == ops::cast && made->result()->type().element == ElementType::f32) {
      casts = true;
    } else {
      return std::nullopt;
    }
  }
  if (!casts || made == nullptr || made->literal() == nullptr || made->literal()->bindable) {
    return std::nullopt;
  }
  source.matrix = &made->literal()->tensor;
  const ElementType type = source.matrix->type();
  const bool fits = (type == ElementType::bf16 || type == ElementType::f16) &&
                    source.matrix->rank() == 2 && source.matrix->count() > 0 &&
                    source.matrix->is_dense();
  return fits ? std::optional(source) : std::nullopt;
}

}  // namespace lathe::cpu
