// SPDX-License-Identifier: MIT
// Compact forms that kernels read.
#pragma once

#include <array>

#include "tensor/compact_form.h"

namespace lathe::cpu {

inline constexpr std::array<CompactForm, 10> kCompactForms{{
    {4, 32, false, true, false},   // Q4_1, quantised floats
    {5, 32, false, false, false},  // Q5_0
    {5, 32, false, true, false},   // Q5_1
    {2, 16, true, true, false},    // Q2_K
    {3, 16, true, false, false},   // Q3_K
    {4, 32, true, true, false},    // Q4_K
    {5, 32, true, true, false},    // Q5_K
    {6, 16, true, false, false},   // Q6_K
    {4, 32, false, false, true},   // IQ4_NL
    {4, 32, true, false, true},    // IQ4_XS
}};

// Bits of a code in the plain form, and what codes add there without minimums and levels: the plain
// form has the zero in the middle of its codes, the compact one in the middle of its own.
constexpr int plain_bits(CompactForm f) { return f.levels || f.bits > 4 ? 8 : f.bits > 2 ? 4 : 2; }
constexpr int zero_of(CompactForm f) { return f.levels ? 128 : 1 << (f.bits - 1); }

}  // namespace lathe::cpu
