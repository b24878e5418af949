// SPDX-License-Identifier: MIT
// Body of brgemm_*.cpp: splits a GEMM into register tiles.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_multiply.h"
#include "targets/cpu/kernels/gemm/brgemm_pipelined.h"

namespace lathe::cpu {
namespace {

using MultiplyTiles = void (*)(const BrgemmCall&, int64_t row, int64_t column,
                               TilePrefetch prefetch, int64_t tiles);

// Low tiles span several panels: enough independent accumulators to hide the FMA latency.
constexpr int panels_at_once(int rows) {
  if (kRegisters == 32) return rows <= 2 ? 4 : 2;
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
}

template <class P>
struct Tiles {
  MultiplyTiles tall[kTileVectors<P> + 1][15] = {};  // by vectors and rows
  MultiplyTiles wide[kMaxDecodeRows + 1] = {};
};
template <class P, int kVectors, int kRows>
constexpr void add_tiles(Tiles<P>& tiles) {
  if constexpr (kRows > 0) {
    tiles.tall[kVectors][kRows] = multiply<P, kRows, kVectors>;
    add_tiles<P, kVectors, kRows - 1>(tiles);
  } else if constexpr (kVectors > 1) {
    add_tiles<P, kVectors - 1, max_rows<P>(kVectors - 1)>(tiles);
  }
}
template <class P>
constexpr Tiles<P> make_tiles() {
  Tiles<P> tiles;
  add_tiles<P, kTileVectors<P>, max_rows<P>(kTileVectors<P>)>(tiles);
  tiles.wide[1] = multiply<P, 1, panels_at_once(1) * kPanelVectors>;
  tiles.wide[2] = multiply<P, 2, panels_at_once(2) * kPanelVectors>;
  tiles.wide[3] = multiply<P, 3, panels_at_once(3) * kPanelVectors>;
  tiles.wide[4] = multiply<P, 4, panels_at_once(4) * kPanelVectors>;
  return tiles;
}
template <class P>
constexpr Tiles<P> kTiles = make_tiles<P>();

// Bytes of each row of A to prefetch per four groups, for the next tile. 0 unless the rows are
// contiguous, overlap, or have gaps of at most a cache line.
template <class P>
int64_t row_pace(const BrgemmCall& call) {
  constexpr int64_t kCacheLine = 64;
  const int64_t bytes = call.k * 4 / P::kGroup;
  const bool is_run =
      call.a_is_cold && call.a_row_stride <= bytes + kCacheLine && call.a_row_stride > 0;
  return is_run && bytes > 0 ? (16 * call.a_row_stride + bytes - 1) / bytes : 0;
}

// Spreads the prefetch of memory read after the call over its tiles: each takes a part by its
// width.
template <class P>
class CallPrefetch {
 public:
  explicit CallPrefetch(const BrgemmCall& call)
      : at_(static_cast<const char*>(call.prefetch_data)),
        end_(at_ + call.prefetch_bytes),
        steps_(call.k < 8 * P::kGroup ? 0 : call.k / P::kGroup / 4 - 1) {}  // see multiply
  const char* take(int vectors) {
    if (at_ >= end_) return nullptr;
    const char* from = at_;
    at_ += steps_ * (vectors > kPanelVectors ? 2 : 1) * PanelPrefetch<1>::kBytes;
    return from;
  }

 private:
  const char* at_;
  const char* end_;
  int64_t steps_;
};

// Width of the tile at a column, in vectors.
template <class P>
inline int tile_vectors(const BrgemmCall& call, int64_t column) {
  const int64_t left = (call.columns - column + kLanes - 1) / kLanes;
  return left < kTileVectors<P> ? static_cast<int>(left) : kTileVectors<P>;
}

// Splits rows into tiles of nearly equal height, so that no tile is too low to hide the latency.
struct Heights {
  int64_t tiles, low, first_high;
  Heights(int64_t rows, int64_t most)
      : tiles((rows + most - 1) / most),
        low(tiles == 0 ? 0 : rows / tiles),
        first_high((low + 1) * tiles - rows) {}
  int64_t operator[](int64_t tile) const { return low + (tile >= first_high ? 1 : 0); }
};

// Rows first: panels stay in L1, and C is written sequentially.
constexpr int64_t kPanelsInCache = 24 << 10;  // bytes, half of a 48 KiB L1
template <class P>
void run_rows_first(const BrgemmCall& call) {
  const Heights heights(call.rows, max_rows<P>(tile_vectors<P>(call, 0)));
  CallPrefetch<P> call_prefetch(call);
  int64_t row = 0;
  for (int64_t t = 0; t < heights.tiles; ++t) {
    const int64_t rows = heights[t];
    for (int64_t column = 0; column < call.columns; column += kTileVectors<P> * kLanes) {
      const int vectors = tile_vectors<P>(call, column);
      const TilePrefetch prefetch{0, 0, column == 0 ? row_pace<P>(call) : 0,
                                  call_prefetch.take(vectors)};
      kTiles<P>.tall[vectors][rows](call, row, column, prefetch, 1);
    }
    row += rows;
  }
}

// Blocks of rows while the panels stay in L1. A column block has one vector only if no other width
// fits.
constexpr int64_t kRowsTogether = 96;
template <class P>
void run_pipelined(const BrgemmCall& call) {
  if (call.output_row_pitch != 0) {
    const int64_t output_rows = (call.rows + call.output_row_pitch - 1) / call.output_row_pitch;
    kPipelinedRows<P>(call, 0, output_rows * call.output_row_width, 0, tile_vectors<P>(call, 0));
    return;
  }
  const int64_t panels = (call.columns + kPanelColumns - 1) / kPanelColumns;
  const bool stays = panels * call.b_panel_stride <= kPanelsInCache;
  const bool parts = stays && call.columns > kTileVectors<P> * kLanes;
  const Heights blocks(call.rows, parts ? kRowsTogether : call.rows);
  const int64_t step = (blocks[0] + kPipelinedStep - 1) / kPipelinedStep * kPipelinedStep;
  for (int64_t row = 0; row < call.rows; row += step) {
    const int64_t rows = call.rows - row < step ? call.rows - row : step;
    for (int64_t column = 0; column < call.columns;) {
      const int64_t left = (call.columns - column + kLanes - 1) / kLanes;
      const int vectors = left == 5 ? 2 : left < 4 ? static_cast<int>(left) : 4;
      const int64_t done = kPipelinedRows<P>(call, row, rows, column, vectors);
      if (done < rows) kTiles<P>.tall[vectors][rows - done](call, row + done, column, {}, 1);
      column += vectors * kLanes;
    }
  }
}

template <class P>
void run_tiles(const BrgemmCall& call) {
  if constexpr (kHasPipelined<P>) {
    if (is_pipelined<P>(call)) return run_pipelined<P>(call);
  }
  const int64_t panels = (call.columns + kPanelColumns - 1) / kPanelColumns;
  if (call.rows > kMaxDecodeRows && panels > 1 && panels * call.b_panel_stride <= kPanelsInCache) {
    return run_rows_first<P>(call);
  }
  int64_t column = 0;
  if (call.rows <= kMaxDecodeRows) {
    // Panels are stored whole, even if only some columns of the last one are used.
    const int64_t width = panels_at_once(static_cast<int>(call.rows)) * kPanelColumns;
    for (; column + width - kPanelColumns < call.columns; column += width) {
      kTiles<P>.wide[call.rows](call, 0, column, {}, 1);
    }
  }
  CallPrefetch<P> call_prefetch(call);
  for (; column < call.columns; column += kTileVectors<P> * kLanes) {
    const int vectors = tile_vectors<P>(call, column);
    const Heights heights(call.rows, max_rows<P>(vectors));
    const int64_t tiles = heights.tiles;
    int64_t row = 0;
    const bool more = column + vectors * kLanes < call.columns || call.b_continues;
    const int64_t parts = tiles * call.prefetch_parts;
    const int64_t pace = call.b_is_cold && more ? (kGroupBytes + parts - 1) / parts : 0;
    TilePrefetch prefetch{0, pace, column == 0 ? row_pace<P>(call) : 0, nullptr,
                          pace * (call.k / P::kGroup)};
    for (int64_t t = 0, count = 0; t < tiles; t += count) {
      const int64_t rows = heights[t];
      const int64_t left = (t < heights.first_high ? heights.first_high : tiles) - t;
      prefetch.begin = (call.prefetch_part * tiles + t) * prefetch.step;
      if (pace == 0) prefetch.other = call_prefetch.take(vectors);
      count = prefetch.other != nullptr ? 1 : left < tiles - t ? left : tiles - t;
      kTiles<P>.tall[vectors][rows](call, row, column, prefetch, count);
      row += rows * count;
    }
  }
}

template <class P>
void run(const BrgemmCall& call) {
  SimpleEpilogue simple;
  if (call.epilogue == nullptr || call.epilogue->simple != nullptr ||
      !simplify(*call.epilogue, simple)) {
    return run_tiles<P>(call);
  }
  Epilogue epilogue = *call.epilogue;
  epilogue.simple = &simple;
  BrgemmCall simplified = call;
  simplified.epilogue = &epilogue;
  run_tiles<P>(simplified);
}

template <class P>
constexpr bool (*kTakesOutputRows)(const BrgemmCall&) = kHasPipelined<P> ? is_pipelined<P>
                                                                         : nullptr;

template <class P>
constexpr BrgemmKernel kKernel{
    run<P>,     kPanelColumns, P::kGroup, max_rows<P>(kTileVectors<P>),    P::kShift,
    P::kNative, true,          false,     kTileVectors<P> / kPanelVectors, kTakesOutputRows<P>};

}  // namespace
}  // namespace lathe::cpu
