// SPDX-License-Identifier: MIT
// In which type the activations of weight products compute.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/pass.h"
#include "ir/program.h"

namespace lathe {

// int8: activations as 8-bit codes per row and block, weights as they are stored or, floats, as
// 8-bit codes per column and block of 32. bf16: activations (and weights of floats) rounded to
// bf16. Sums are exact or f32 throughout.
enum class Compute : uint8_t { as_model, int8, bf16, f32 };

std::string_view to_string(Compute compute);
// InvalidArgument, naming `origin`, for another text.
Compute parse_compute(std::string_view text, std::string_view origin);

// What a product of activations with constant weights computes in: "int8", "bf16", "f32", "f64";
// empty for other instructions.
std::string_view compute_of(const Instruction& instruction);
// Why a weight product cannot compute so; empty if it can.
std::string compute_refusal(const Instruction& instruction, Compute compute);

// Sets it for every weight product that can; the others stay as the file has them.
Pass set_compute_type(Compute compute);

}  // namespace lathe
