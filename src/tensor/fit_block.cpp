// SPDX-License-Identifier: MIT
#include "tensor/fit_block.h"

#include "tensor/float_formats.h"

namespace lathe {
namespace {

// Half to even, for magnitudes below 2^22.
float rounded(float x) {
  constexpr float kShift = 12582912;  // 1.5 · 2^23
  return (x + kShift) - kShift;
}

float round_to_f16(float x) { return half_to_float(float_to_half(x)); }

// As the vector instructions compare: `b` unless a is less (greater).
float lesser(float a, float b) { return a < b ? a : b; }
float greater(float a, float b) { return a > b ? a : b; }

// One column of values [block][16].
struct Column {
  const float* values;
  int64_t block;
  float operator[](int64_t i) const { return values[i * kFitColumns]; }
};

struct Line {
  float scale = 0, minimum = 0;
};

Line fit_line(const Column& v) {
  float least = v[0], most = v[0];
  for (int64_t i = 1; i < v.block; ++i) {
    least = lesser(v[i], least);
    most = greater(v[i], most);
  }
  float sum = 0;
  for (int64_t i = 0; i < v.block; ++i) sum = sum + (v[i] - least);
  const float range = most - least, count = static_cast<float>(v.block);
  Line best;
  float most_gain = -1;
  for (int r = 0; r < kFitRanges; ++r) {
    const float factor = range > 0 ? fit_steps(r, false) / range : 0;
    float codes = 0, squares = 0, products = 0;
    for (int64_t i = 0; i < v.block; ++i) {
      const float above = v[i] - least;
      const float code = rounded(lesser(above * factor, 15));
      codes = codes + code;
      squares = squares + code * code;
      products = products + code * above;
    }
    const float determinant = count * squares - codes * codes;
    const float scale = (count * products - sum * codes) / determinant;
    const float minimum = (squares * sum - codes * products) / determinant;
    const float gain = scale * products + minimum * sum;  // what the error is less than Σ above²
    if (determinant > 0 && gain > most_gain) {
      most_gain = gain;
      best = {scale, minimum};
    }
  }
  return {round_to_f16(best.scale), round_to_f16(least + best.minimum)};
}

float fit_scale(const Column& v) {
  float largest = 0;  // with its sign
  for (int64_t i = 0; i < v.block; ++i) {
    if (v[i] * v[i] > largest * largest) largest = v[i];
  }
  float best = 0, most_gain = -1;
  for (int r = 0; r < kFitRanges; ++r) {
    const float factor = largest * largest > 0 ? -fit_steps(r, true) / largest : 0;
    float squares = 0, products = 0;
    for (int64_t i = 0; i < v.block; ++i) {
      const float code = rounded(lesser(greater(v[i] * factor, -8), 7));
      squares = squares + code * code;
      products = products + code * v[i];
    }
    const float scale = products / squares;
    const float gain = scale * products;
    if (squares > 0 && gain > most_gain) {
      most_gain = gain;
      best = scale;
    }
  }
  return round_to_f16(best);
}

}  // namespace

void fit_block(const float* values, int64_t block, bool symmetric, uint8_t* codes, float* scales,
               float* minimums) {
  for (int64_t c = 0; c < kFitColumns; ++c) {
    const Column v{values + c, block};
    Line line;
    if (symmetric) {
      line.scale = fit_scale(v);
      line.minimum = -8 * line.scale;
    } else {
      line = fit_line(v);
    }
    const float factor = line.scale * line.scale > 0 ? 1 / line.scale : 0;
    for (int64_t i = 0; i < block; ++i) {
      const float code = rounded(lesser(greater((v[i] - line.minimum) * factor, 0), 15));
      codes[i * kFitColumns + c] = static_cast<uint8_t>(code);
    }
    scales[c] = line.scale;
    minimums[c] = line.minimum;
  }
}

}  // namespace lathe
