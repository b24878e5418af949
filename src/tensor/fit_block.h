// SPDX-License-Identifier: MIT
// Quantises weights to 4 bits, block by block: element = code · scale + minimum, fitted by least
// squares over ranges of the codes.
#pragma once

#include <cstdint>

namespace lathe {

inline constexpr int64_t kFitColumns = 16;  // quantised together

// Quantises a block of kFitColumns columns: values [block][16] to codes [block][16] of 0 to 15.
// Scales and minimums are values of f16. The codes of each range have a scale and a minimum of
// the least squared error; the range of the least error is used. Symmetric: the minimum is -8 ·
// scale. A block of equal values that is not symmetric has the scale 0 and the value as minimum.
using FitBlock = void (*)(const float* values, int64_t block, bool symmetric, uint8_t* codes,
                          float* scales, float* minimums);
void fit_block(const float* values, int64_t block, bool symmetric, uint8_t* codes, float* scales,
               float* minimums);

// The ranges: the number of steps from the least value to the largest; symmetric: from 0 to the one
// of the largest magnitude.
inline constexpr int kFitRanges = 21;
constexpr float fit_steps(int range, bool symmetric) {
  return (symmetric ? 7.0F : 14.0F) + 0.1F * static_cast<float>(range);
}

}  // namespace lathe
