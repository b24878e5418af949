// SPDX-License-Identifier: MIT
// Constants that moe packs from where they lie, in place of the casts, transposes and joins over
// them.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"
#include "tensor/tensor.h"

namespace lathe::cpu {

struct ExpertSource {
  std::vector<const Tensor*> parts;  // of one type and shape but the experts, one after another
  bool transposed = false;           // all parts, [experts, inputs, outputs]
};
// In place of a deferred operand of a moe; none for others.
std::optional<ExpertSource> expert_source(const Instruction& instruction, int operand);

}  // namespace lathe::cpu
