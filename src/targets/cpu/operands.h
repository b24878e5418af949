// SPDX-License-Identifier: MIT
// Shared by the target's kernels: attributes and constants of an instruction, dense operands,
// scratch.
#pragma once

#include <string_view>
#include <vector>

#include "ops/evaluation.h"
#include "plan/kernel.h"

namespace lathe::cpu {

template <class T>
T attribute(const Instruction& instruction, std::string_view name) {
  const Attribute* found = find_attribute(instruction.attributes(), name);
  return found == nullptr ? T{} : std::get<T>(*found);
}

inline bool has_operand(const Instruction& instruction, size_t i) {
  return i < instruction.operands().size() && instruction.operands()[i] != nullptr;
}
ElementType element_of(const Instruction& instruction, size_t i);
inline const Tensor* constant_at(Constants constants, size_t i) {
  return i < constants.size() ? constants[i] : nullptr;
}
std::string megabytes(size_t bytes);  // "12.3 MiB"

std::vector<float> floats_of(const Tensor& tensor);  // from any numeric type

// The view itself if it is dense, else a dense copy in `copy`.
const TensorView& dense_view(const TensorView& view, Tensor& copy, TensorView& made);

// Per-thread scratch of one launch, aligned to 64 bytes; grows, never shrinks.
void* scratch(size_t bytes);

}  // namespace lathe::cpu
