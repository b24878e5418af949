// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "ir/program.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"

namespace lathe::cpu {

struct ActivationCall {
  Activation activation = Activation::relu;
  float a = 0;  // parameters: see vector_ops.h
  float b = 0;
};

// The vectorised function of an op with one operand, its attributes read; none if there is none.
std::optional<ActivationCall> activation_of(const Instruction& instruction);

}  // namespace lathe::cpu
