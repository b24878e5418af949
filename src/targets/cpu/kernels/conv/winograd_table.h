// SPDX-License-Identifier: MIT
// What the units of the Winograd transforms export: tiles of 2x2 or 4x4 outputs of a 3x3
// convolution of stride 1, channels in lanes.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// One tile of (m + 2)² inputs, of which rows [row_begin, row_end) and columns likewise lie inside;
// the others are zeros. Frequency f of channel c goes to to[f * to_pitch + c].
struct WinogradInput {
  const float* x = nullptr;  // of the tile's corner, inside or not
  int64_t row_pitch = 0, column_pitch = 0;
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  int64_t channels = 0;
  float* to = nullptr;
  int64_t to_pitch = 0;
};

// The tile's m² outputs from (m + 2)² frequencies; the first `rows` x `columns` of them are stored.
struct WinogradOutput {
  const float* from = nullptr;
  int64_t from_pitch = 0;
  int64_t channels = 0;
  float* y = nullptr;
  int64_t row_pitch = 0, column_pitch = 0;
  int64_t rows = 0, columns = 0;
};

struct WinogradTable {
  void (*input2)(const WinogradInput&);
  void (*input4)(const WinogradInput&);
  void (*output2)(const WinogradOutput&);
  void (*output4)(const WinogradOutput&);
};
extern const WinogradTable kWinogradAvx2;
extern const WinogradTable kWinogradAvx512;

}  // namespace lathe::cpu
