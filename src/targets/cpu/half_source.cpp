// SPDX-License-Identifier: MIT
#include "targets/cpu/half_source.h"

#include <algorithm>

#include "ir/ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

// Appends the constants under `made`; false if there is anything else.
bool add_parts(const Instruction* made, bool transposed, bool widened, HalfSource& source) {
  for (; made != nullptr && made->deferred(); made = made->operands()[0]->definition()) {
    if (made->op() == ops::transpose && made->operands()[0]->type().rank() == 2) {
      const auto order = attribute<std::vector<int64_t>>(*made, "permutation");
      transposed ^= order.empty() || order == std::vector<int64_t>{1, 0};
    } else if (made->op() == ops::cast && made->result()->type().element == ElementType::f32) {
      widened = true;
    } else if (made->op() == ops::concat) {
      const auto axis = attribute<int64_t>(*made, "axis");
      return made->result()->type().rank() == 2 &&
             (axis < 0 ? axis + 2 : axis) == (transposed ? 0 : 1) &&
             std::ranges::all_of(made->operands(), [&](const Value* part) {
               return add_parts(part->definition(), transposed, widened, source);
             });
    } else {
      return false;
    }
  }
  if (!widened || made == nullptr || made->literal() == nullptr || made->literal()->bindable) {
    return false;
  }
  const Tensor& matrix = made->literal()->tensor;
  const ElementType type = matrix.type();
  const bool fits = (type == ElementType::bf16 || type == ElementType::f16) && matrix.rank() == 2 &&
                    matrix.count() > 0 && matrix.is_dense();
  const bool alike =
      source.parts.empty() || (source.transposed == transposed && source.parts[0]->type() == type);
  source.transposed = transposed;
  source.parts.push_back(&matrix);
  return fits && alike;
}

}  // namespace

std::optional<HalfSource> half_source(const Instruction& matmul) {
  constexpr size_t kB = 1;
  if (matmul.op() != ops::matmul && matmul.op() != ops::gemm) return std::nullopt;
  const bool f32 = element_of(matmul, 0) == ElementType::f32 &&
                   element_of(matmul, kB) == ElementType::f32 &&
                   attribute<std::string>(matmul, "compute_type").empty();
  HalfSource source;
  if (!f32 || !add_parts(matmul.operands()[kB]->definition(), false, false, source)) {
    return std::nullopt;
  }
  const auto has_whole_panels = [&](const Tensor* part) {
    return part->dims()[source.transposed ? 0 : 1] % kJoinedColumns == 0;
  };
  const bool fits = source.parts.size() == 1 || std::ranges::all_of(source.parts, has_whole_panels);
  return fits ? std::optional(std::move(source)) : std::nullopt;
}

}  // namespace lathe::cpu
