// SPDX-License-Identifier: MIT
// Compute type of matrix multiplications with constant weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/pass.h"
#include "ir/program.h"

namespace lathe {

// int8: activations are quantised to 8 bits per token and block. Weights stay as stored; float
// weights are quantised to 8 bits per column and block of 32. bf16: activations and float weights
// are rounded to bf16. f16: GPUs alone, which in f16 and bf16 also store what lies between launches
// in that type. Accumulators are exact or f32 in all types.
enum class Compute : uint8_t { as_model, int8, bf16, f32, f16 };

std::string_view to_string(Compute compute);
// InvalidArgument, naming `origin`, for an unknown name.
Compute parse_compute(std::string_view text, std::string_view origin);

// Compute type of a matrix multiplication with constant weights: "int8", "bf16", "f32" or "f64";
// empty for other instructions.
std::string_view compute_of(const Instruction& instruction);
// Why the instruction cannot use `compute`; empty if it can.
std::string compute_refusal(const Instruction& instruction, Compute compute);

// Sets the compute type where it is supported; other instructions stay unchanged.
Pass set_compute_type(Compute compute);

}  // namespace lathe
