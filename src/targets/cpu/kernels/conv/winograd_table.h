// SPDX-License-Identifier: MIT
// Winograd transforms exported by the per-ISA sources: tiles of 2x2 or 4x4 outputs of a 3x3
// convolution of stride 1, channels in lanes.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// One tile of (m + 2)² inputs. Rows [row_begin, row_end) and the columns likewise are inside the
// input; others are zero. Frequency f of channel c is stored at to[f * to_pitch + c].
struct WinogradInput {
  const float* x = nullptr;  // the tile's corner, possibly outside the input
  int64_t row_pitch = 0, column_pitch = 0;
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  int64_t channels = 0;
  float* to = nullptr;
  int64_t to_pitch = 0;
};

// The tile's m² outputs from (m + 2)² frequencies; only the first `rows` x `columns` are stored.
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
