// SPDX-License-Identifier: MIT
// Computes parts of a program in another float type.
#pragma once

#include <functional>

#include "ir/pass.h"

namespace lathe {

struct Retyping {
  ElementType from;
  ElementType to;
  // True if the instruction may compute in `to`. `reached`: an operand already does.
  std::function<bool(const Instruction& instruction, bool reached)> takes;
  // True if the instruction, in the new type, has a kernel.
  std::function<bool(const Instruction& instruction)> accepts;
  // True if the instruction reads values beyond `to`'s largest as the largest: masks of -3e38.
  std::function<bool(const Instruction& instruction)> saturates = nullptr;
  double largest = 0;  // of `to`
  // True if the operand keeps its type.
  std::function<bool(const Instruction& instruction, size_t operand)> keeps = nullptr;
  bool with_states = false;  // also programs with states, which keep their types
};

// Values of type `from` between instructions that are taken lie in type `to`; casts stand where
// they meet others.
Pass retype(std::string_view name, std::string_view doc, Retyping retyping);

// f16 in f32, where a processor has no f16 arithmetic: results are rounded less often.
Pass widen_f16(std::function<bool(const Instruction& instruction)> accepts);
// Convolutions with constant weights, and what stands between them, in bf16.
Pass narrow_convolutions(std::function<bool(const Instruction& instruction)> accepts);
// Products, convolutions, attention and tables, and what stands between them, in a 16-bit float.
Pass narrow_floats(ElementType to, std::function<bool(const Instruction& instruction)> accepts);

}  // namespace lathe
