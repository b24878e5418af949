// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Convolutions between dequantize_linear and quantize_linear become qlinear_conv: exact integer
// sums, one multiplication by the scales. Movement between a pair of equal scales moves bytes.
extern const Pass raise_quantized;

}  // namespace lathe
