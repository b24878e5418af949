// SPDX-License-Identifier: MIT
// Quantises weights to 4 bits, with the bits of fit_block() (tensor/fit_block.h): a lane has
// a column, whose order of additions it keeps.
#pragma once

#include "targets/cpu/kernels/simd/simd.h"
#include "tensor/fit_block.h"

namespace lathe::cpu {
namespace {

// Values of a block at `part`, [block][16].
inline F32 value_at(const float* values, int64_t i) { return load(values + i * kFitColumns); }

inline F32 rounded_to_f16(F32 x) {
  F16 half[kLanes];
  store_f32(half, x);
  return load_f32(half);
}

// Scale and minimum of the least squared error.
inline void fit_line(const float* values, int64_t block, F32& scale, F32& minimum) {
  F32 least = value_at(values, 0), most = least;
  for (int64_t i = 1; i < block; ++i) {
    least = min(value_at(values, i), least);
    most = max(value_at(values, i), most);
  }
  F32 sum = zero_f32();
  for (int64_t i = 0; i < block; ++i) sum = sum + (value_at(values, i) - least);
  const F32 range = most - least, count = set1(static_cast<float>(block));
  F32 best = zero_f32(), most_gain = set1(-1.0F);
  minimum = zero_f32();
  for (int r = 0; r < kFitRanges; ++r) {
    const F32 factor =
        select(less(zero_f32(), range), set1(fit_steps(r, false)) / range, zero_f32());
    F32 codes = zero_f32(), squares = zero_f32(), products = zero_f32();
    for (int64_t i = 0; i < block; ++i) {
      const F32 above = value_at(values, i) - least;
      const F32 code = round_even(min(above * factor, set1(15.0F)));
      codes = codes + code;
      squares = squares + code * code;
      products = products + code * above;
    }
    const F32 determinant = count * squares - codes * codes;
    const F32 slope = (count * products - sum * codes) / determinant;
    const F32 base = (squares * sum - codes * products) / determinant;
    const F32 gain = slope * products + base * sum;
    // A determinant of 0 makes the gain NaN or infinite.
    const F32 compared = select(less(zero_f32(), determinant), gain, set1(-1.0F));
    const Choice better = less(most_gain, compared);
    most_gain = select(better, compared, most_gain);
    best = select(better, slope, best);
    minimum = select(better, base, minimum);
  }
  scale = rounded_to_f16(best);
  minimum = rounded_to_f16(least + minimum);
}

inline F32 fit_scale(const float* values, int64_t block) {
  F32 largest = zero_f32();
  for (int64_t i = 0; i < block; ++i) {
    const F32 x = value_at(values, i);
    largest = select(less(largest * largest, x * x), x, largest);
  }
  F32 best = zero_f32(), most_gain = set1(-1.0F);
  for (int r = 0; r < kFitRanges; ++r) {
    const F32 factor = select(less(zero_f32(), largest * largest),
                              set1(-fit_steps(r, true)) / largest, zero_f32());
    F32 squares = zero_f32(), products = zero_f32();
    for (int64_t i = 0; i < block; ++i) {
      const F32 x = value_at(values, i);
      const F32 code = round_even(min(max(x * factor, set1(-8.0F)), set1(7.0F)));
      squares = squares + code * code;
      products = products + code * x;
    }
    const F32 slope = products / squares;
    const F32 compared = select(less(zero_f32(), squares), slope * products, set1(-1.0F));
    const Choice better = less(most_gain, compared);
    most_gain = select(better, compared, most_gain);
    best = select(better, slope, best);
  }
  return rounded_to_f16(best);
}

void fit_columns(const float* values, int64_t block, bool symmetric, uint8_t* codes, float* scales,
                 float* minimums) {
  for (int64_t part = 0; part < kFitColumns; part += kLanes) {
    F32 scale, minimum;
    if (symmetric) {
      scale = fit_scale(values + part, block);
      minimum = set1(-8.0F) * scale;
    } else {
      fit_line(values + part, block, scale, minimum);
    }
    const F32 factor = select(less(zero_f32(), scale * scale), set1(1.0F) / scale, zero_f32());
    for (int64_t i = 0; i < block; ++i) {
      const F32 above = (value_at(values + part, i) - minimum) * factor;
      store_i32(codes + i * kFitColumns + part,
                to_i32(round_even(min(max(above, zero_f32()), set1(15.0F)))));
    }
    store(scales + part, scale);
    store(minimums + part, minimum);
  }
}

}  // namespace
}  // namespace lathe::cpu
