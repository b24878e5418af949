// SPDX-License-Identifier: MIT
// Constants that GEMMs pack in panels from where they lie, in place of the casts, transposes and
// joins of columns over them; tables whose rows lookups then read from those panels.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"
#include "targets/cpu/kernels/gemm/brgemm.h"
#include "tensor/tensor.h"

namespace lathe::cpu {

struct PanelSource {
  std::vector<const Tensor*> parts;  // of one type, rank 2; the columns of one after another
  bool transposed = false;           // all parts, of B
  GemmType type = GemmType::f32;
};
// Parts that are joined have whole panels on every instruction set.
inline constexpr int64_t kJoinedColumns = 64;
// What the kernel of a matmul, a gemm or a region of one packs in place of a deferred second
// operand: transposed weights of f32, and those of 16 bits. None for others.
std::optional<PanelSource> panel_source(const Instruction& product);

// The panels of a GEMM that have the rows of a gather's table as columns, elements as they are.
struct LookedUpPanels {
  PanelSource source;
  int64_t first = 0;  // column of the table's first row
};
std::optional<LookedUpPanels> looked_up_panels(const Instruction& gather);

}  // namespace lathe::cpu
