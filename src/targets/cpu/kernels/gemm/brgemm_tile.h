// SPDX-License-Identifier: MIT
// A tile of kRows rows and kVectors vectors of columns, its sums in registers over all blocks.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_table.h"
#include "targets/cpu/kernels/gemm/epilogue_registers.h"
#include "targets/cpu/kernels/gemm/epilogue_simple.h"
#include "targets/cpu/kernels/gemm/epilogue_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

#if defined(__AVX512F__)
constexpr FinishTile kFinish = finish_tile_avx512;
#else
constexpr FinishTile kFinish = finish_tile_avx2;
#endif

constexpr int kPanelVectors = 2;
constexpr int kPanelColumns = kPanelVectors * kLanes;
constexpr int64_t kGroupBytes = kPanelColumns * 4;  // of one group of k in a panel

// Each product: the types of sums and of vectors, and what is multiplied at a time: a group of 4
// bytes of A, in every lane, by a vector of B.
struct GemmF32 {
  using Sum = F32;
  using Number = float;
  static constexpr int kGroup = 1;
  static constexpr int kShift = 0;
  static constexpr bool kNative = true;
  static constexpr int kSpare = 1;      // registers for a number of A and for what widening takes
  static constexpr bool kSwaps = true;  // A and B may change sides
  static Sum zero() { return zero_f32(); }
  static F32 load_b(const char* p) { return load(reinterpret_cast<const float*>(p)); }
  static F32 broadcast(const char* p) { return set1(*reinterpret_cast<const float*>(p)); }
  static Sum dot(Sum sum, F32 a, F32 b) { return fma(a, b, sum); }
};

struct GemmBf16 {
  using Sum = F32;
  using Number = float;
  static constexpr int kGroup = 2;
  static constexpr int kShift = 0;
#if defined(__AVX512BF16__)
  static constexpr bool kNative = true;
#else
  static constexpr bool kNative = false;
#endif
  static constexpr int kSpare = kNative ? 1 : 2 + kPanelVectors;
  static constexpr bool kSwaps = true;
  static Sum zero() { return zero_f32(); }
  static I32 load_b(const char* p) { return load(reinterpret_cast<const int32_t*>(p)); }
  static I32 broadcast(const char* p) { return set1(*reinterpret_cast<const int32_t*>(p)); }
  // The first number of a group alone, nothing behind it.
  static I32 broadcast_one(const char* p) {
    return set1_low(*reinterpret_cast<const uint16_t*>(p));
  }
  static Sum dot(Sum sum, I32 a, I32 b) { return dot_bf16(sum, a, b); }
};

struct GemmU8S8 {
  using Sum = I32;
  using Number = int32_t;
  static constexpr int kGroup = 4;
  static constexpr int kShift = 0;
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
  static constexpr bool kNative = true;
#else
  static constexpr bool kNative = false;
#endif
  static constexpr int kSpare = kNative ? 1 : 3 + kPanelVectors;
  static constexpr bool kSwaps = false;
  static Sum zero() { return zero_i32(); }
  static I32 load_b(const char* p) { return load(reinterpret_cast<const int32_t*>(p)); }
  static I32 broadcast(const char* p) { return set1(*reinterpret_cast<const int32_t*>(p)); }
#if defined(__AVX512F__)
  // The first numbers of a group, nothing behind them.
  static I32 broadcast_some(const char* p, int64_t count) {
    const auto mask = static_cast<__mmask16>((1 << count) - 1);
    return {_mm512_broadcastd_epi32(_mm_maskz_loadu_epi8(mask, p))};
  }
#endif
  static Sum dot(Sum sum, I32 a, I32 b) { return dot_u8s8(sum, a, b); }
};

// A is shifted to unsigned numbers, 128 more.
struct GemmS8S8 : GemmU8S8 {
  static constexpr int kShift = 128;
  static I32 shifted(I32 x) { return x ^ set1(static_cast<int32_t>(0x80808080)); }
  static I32 broadcast(const char* p) { return shifted(GemmU8S8::broadcast(p)); }
#if defined(__AVX512F__)
  static I32 broadcast_some(const char* p, int64_t count) {
    return shifted(GemmU8S8::broadcast_some(p, count));
  }
#endif
};

// The most vectors of a tile of many rows. Two panels side by side halve what it loads of A for
// each product: on Zen 4, tiles of 14 rows and 2 vectors take 1.02 to 2.3 times as long as their
// products alone, by the distance between rows; those of 6 rows and 4 vectors 1.00 to 1.02.
template <class P>
constexpr int kTileVectors = kRegisters == 32 && P::kNative ? 2 * kPanelVectors : kPanelVectors;

// The most rows of a tile with so many vectors: sums, vectors of B and spare ones fit registers.
template <class P>
constexpr int max_rows(int vectors) {
  const int rows = (kRegisters - vectors - P::kSpare) / vectors;
  return rows < 1 ? 1 : rows > 14 ? 14 : rows;
}

// The numbers of an incomplete group, zeros behind them.
inline void copy_group(char* to, const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
}

// Rows of A, three to a pointer: few registers, and no address to compute.
template <int kRows>
struct Rows {
  static constexpr int kPointers = (kRows + 2) / 3;
  const char* at[kPointers] = {};
  int64_t stride = 0;

  Rows() = default;
  Rows(const char* a, int64_t row_stride) : stride(row_stride) {
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) at[i] = a + 3 * i * row_stride;
  }
  const char* operator[](int r) const { return at[r / 3] + r % 3 * stride; }
  void advance(int64_t bytes) {
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) {
      at[i] += bytes;
      __asm__("" : "+r"(at[i]));  // else the compiler keeps a pointer per row, most of them spilled
    }
  }
};

template <class P, int kRows, int kVectors>
struct Tile {
  using Sum = typename P::Sum;
  Sum sums[kRows][kVectors];

  // One group of k for the rows from kFirst to kEnd; `number(r)` is that of row r, in every lane.
  template <int kOffset, int kFirst = 0, int kEnd = kRows, class Number>
  inline __attribute__((always_inline)) void step(Number&& number, const char* b,
                                                  int64_t panel_stride) {
    decltype(P::load_b(b)) vectors[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = P::load_b(b + kOffset * kGroupBytes + v / kPanelVectors * panel_stride +
                             v % kPanelVectors * kLanes * 4);
    }
#pragma GCC unroll 16
    for (int r = kFirst; r < kEnd; ++r) {
      const auto x = number(r);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        // As the last operand, a number that is used once comes with the product's own load.
        sums[r][v] = kVectors == 1 && P::kSwaps ? P::dot(sums[r][v], vectors[v], x)
                                                : P::dot(sums[r][v], x, vectors[v]);
      }
    }
    // No load moves to another group, nor a product: registers are taken.
#pragma GCC unroll 16
    for (int r = kFirst; r < kEnd; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) __asm__ volatile("" : : "v"(sums[r][v].v));
    }
    __asm__ volatile("" ::: "memory");
  }
};

inline Mask columns_mask(const BrgemmCall& call, int64_t column) {
  const int64_t left = call.columns - column;
  return mask_first(left < 0 ? 0 : left < kLanes ? left : kLanes);
}

// All columns of a tile.
template <class P, int kRows, int kVectors>
inline void store_sums(const BrgemmCall& call, int64_t row, int64_t column,
                       const Tile<P, kRows, kVectors>& tile) {
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * 4;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, out += call.out_stride) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      store(reinterpret_cast<typename P::Number*>(out) + v * kLanes, tile.sums[r][v]);
    }
  }
}

// Rows of sums, `stride` numbers apart, to what the call's epilogue makes of them. What tiles of
// any size share is not part of each.
template <class P>
__attribute__((noinline)) void finish_rows(const BrgemmCall& call, int64_t row, int64_t column,
                                           const typename P::Number* sums, int rows, int stride) {
  EpilogueTile part;
  part.columns = call.columns - column < stride ? call.columns - column : stride;
  const int64_t size = call.epilogue == nullptr ? 4 : out_size(call.epilogue->out);
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * size;
  if (call.epilogue == nullptr) {
    for (int r = 0; r < rows; ++r, out += call.out_stride, sums += stride) {
      for (int64_t c = 0; c < part.columns; c += kLanes) {
        store(reinterpret_cast<typename P::Number*>(out) + c, load(sums + c),
              columns_mask(call, column + c));
      }
    }
    return;
  }
  part.sums = sums;
  part.integer_sums = P::kGroup == 4;
  part.sums_stride = stride;
  part.rows = rows;
  part.row = call.row + row;
  part.column = call.column + column;
  part.out = out;
  part.out_stride = call.out_stride;
  kFinish(*call.epilogue, part);
}

template <class P, int kRows, int kVectors>
inline void finish_sums(const BrgemmCall& call, int64_t row, int64_t column,
                        const Tile<P, kRows, kVectors>& tile) {
  constexpr int kStride = kVectors * kLanes;
  alignas(64) typename P::Number buffer[kRows * kStride];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(buffer + r * kStride + v * kLanes, tile.sums[r][v]);
  }
  finish_rows<P>(call, row, column, buffer, kRows, kStride);
}

constexpr int kMaxDecodeRows = 4;

// Tiles whose sums may be finished in registers, for which each has the code once more. Not where
// most of the time goes into widening, or rows are shifted on the way, nor the low ones of few
// columns.
template <class P, int kRows, int kVectors>
constexpr bool kFinishesHere = P::kNative && P::kShift == 0 && kVectors <= kTileVectors<P> &&
                               (kRows > kMaxDecodeRows || kVectors == kTileVectors<P>);
template <class P>
constexpr bool kHasIntegers = P::kGroup == 4;
constexpr int kLastLanes = kCutsVectors ? 1 : kLanes;  // of a tile's last vector at least

// Whether a tile has an epilogue for registers: one of its columns at least in each vector, or all
// of them where vectors are not cut.
template <class P, int kRows, int kVectors>
inline bool finishes_here(const BrgemmCall& call, int64_t column) {
  return kFinishesHere<P, kRows, kVectors> && call.epilogue != nullptr &&
             call.epilogue->simple != nullptr && call.start == nullptr &&
             column + (kVectors - 1) * kLanes + kLastLanes <= call.columns &&
             fits_registers < kHasIntegers<P>,
         P::kGroup == 2 > (*call.epilogue->simple);
}

// kCount rows of a tile from kFirst on. The sums have column_compensation in them already. kFloats:
// the results are f32.
template <class P, bool kFloats, int kFirst, int kCount, int kRows, int kVectors>
inline __attribute__((always_inline)) void finish_here(const BrgemmCall& call, int64_t row,
                                                       int64_t column, Mask last,
                                                       const Tile<P, kRows, kVectors>& tile) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  row += kFirst;
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * out_size(e.out);
  RegisterTile<kHasIntegers<P> && !kFloats, P::kGroup == 2 && !kFloats, kCount, kVectors> finished{
      e, call.row + row, call.column + column, out, call.out_stride, last, {}};
  finished.each([&](F32& x, int r, int v) __attribute__((always_inline)) {
    if constexpr (kHasIntegers<P>) {
      x = to_f32(tile.sums[kFirst + r][v]);
    } else {
      x = tile.sums[kFirst + r][v];
    }
  });
  finished.finish();
}

// What a tile asks for ahead of its use, from each block: of the panels behind its own, `pace`
// bytes of each from `begin` on for each group of k, so that a panel's tiles share it out; of the
// rows below its own `rows` bytes of each with every four groups. What it does not ask for is at
// hand.
struct Fetch {
  int64_t begin = 0;
  int64_t pace = 0;
  int64_t rows = 0;
  const char* other = nullptr;  // in place of panels, by f32: what is wanted after the call
  int64_t step = 0;             // how much further the tile below begins
};

// Where a tile's panels ask next.
template <int kVectors>
struct Ahead {
  static constexpr int kPanels = (kVectors + kPanelVectors - 1) / kPanelVectors;
  static constexpr int kAsked = kPanels < 2 ? kPanels : 2;
  static constexpr int64_t kBytes = 128;  // asked for of each at a time
  const char* first;
  int64_t panel_stride, step;

  Ahead(const char* b, int64_t stride, Fetch fetch)
      : first(fetch.pace == 0 ? b : b + kPanels * stride + fetch.begin),
        panel_stride(stride),
        step(4 * fetch.pace) {}
  void go_elsewhere(const char* at) {
    first = at;
    panel_stride = kBytes;
    step = kAsked * kBytes;
  }
  // Two lines each: what one of four tiles or more has to ask for, and most of what fewer have.
  void ask() {
#pragma GCC unroll 2
    for (int i = 0; i < kAsked; ++i) {
      __builtin_prefetch(first + i * panel_stride, 0, 2);
      __builtin_prefetch(first + i * panel_stride + 64, 0, 2);
    }
    first += step;
  }
};

// Asks for the lines that rows of results will be written to.
inline __attribute__((noinline)) void prefetch_rows(const char* out, int64_t stride, int64_t width,
                                                    int rows) {
  constexpr int64_t kLine = 64;
  if (stride == width) width = rows * stride, rows = 1;
  for (int r = 0; r < rows; ++r, out += stride) {
    for (int64_t at = 0; at < width; at += kLine) __builtin_prefetch(out + at, 1);
    __builtin_prefetch(out + width - 1, 1);
  }
}

// Asks for the lines that a tile's results will be written to: stores that miss would wait for one
// another. A row at a time, while the last products are under way: all at once they would take
// the places of the misses that products wait for, and much earlier they would leave again.
template <int kRows, int kVectors>
struct ExpectedStores {
  const char* out;
  int64_t stride, width;

  ExpectedStores(const BrgemmCall& call, int64_t row, int64_t column) : stride(call.out_stride) {
    const int64_t size = call.epilogue == nullptr ? 4 : out_size(call.epilogue->out);
    out = static_cast<const char*>(call.out) + row * stride + column * size;
    width = kVectors * kLanes * size;
  }
  // The next row, or the last one again: no branch, which would part products from one another.
  void prefetch_row(bool next) {
    const int64_t quarter = width / 4;  // a line at most
    __builtin_prefetch(out, 1);
    __builtin_prefetch(out + quarter, 1);
    __builtin_prefetch(out + quarter * 2, 1);
    __builtin_prefetch(out + quarter * 3, 1);
    __builtin_prefetch(out + quarter * 4 - 1, 1);
    out += stride & -static_cast<int64_t>(next);
  }
  void prefetch_all() const { prefetch_rows(out, stride, width, kRows); }
};

// An incomplete group, as if zeros stood behind it.
template <class P, int kRows, int kVectors>
inline void multiply_rest(Tile<P, kRows, kVectors>& tile, const Rows<kRows>& rows, int64_t rest,
                          const char* b, int64_t panel_stride) {
  if constexpr (P::kGroup == 2) {
    tile.template step<0>([&](int r)
                              __attribute__((always_inline)) { return P::broadcast_one(rows[r]); },
                          b, panel_stride);
  } else if constexpr (P::kGroup == 4) {
#if defined(__AVX512F__)
    tile.template step<0>(
        [&](int r) __attribute__((always_inline)) { return P::broadcast_some(rows[r], rest); }, b,
        panel_stride);
#else
    alignas(4) char part[kRows * 4] = {};
    for (int r = 0; r < kRows; ++r) copy_group(part + r * 4, rows[r], rest);
    tile.template step<0>([&](int r) { return P::broadcast(part + r * 4); }, b, panel_stride);
#endif
  }
}

// The call's own numbers for rows of sums, `stride` numbers apart; zeros behind its columns.
template <class P>
__attribute__((noinline)) void copy_start(const BrgemmCall& call, int64_t row, int64_t column,
                                          typename P::Number* to, int rows, int stride) {
  const auto* start =
      static_cast<const typename P::Number*>(call.start) + row * call.start_stride + column;
  for (int r = 0; r < rows; ++r, start += call.start_stride, to += stride) {
    for (int64_t c = 0; c < stride; c += kLanes) {
      store(to + c, load(start + c, columns_mask(call, column + c)));
    }
  }
}

// Zeros, the call's own numbers, or, of integers finished in registers, what each column adds.
template <class P, int kRows, int kVectors>
inline __attribute__((always_inline)) void begin_sums(const BrgemmCall& call, int64_t row,
                                                      int64_t column, bool here, Mask last,
                                                      Tile<P, kRows, kVectors>& tile) {
  if (call.start != nullptr) {
    constexpr int kStride = kVectors * kLanes;
    alignas(64) typename P::Number buffer[kRows * kStride];
    copy_start<P>(call, row, column, buffer, kRows, kStride);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        tile.sums[r][v] = load(buffer + r * kStride + v * kLanes);
      }
    }
    return;
  }
  typename P::Sum first[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) first[v] = P::zero();
  if constexpr (kFinishesHere<P, kRows, kVectors> && kHasIntegers<P>) {
    const int32_t* add = here ? call.epilogue->simple->column_compensation : nullptr;
    if (add != nullptr) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const int32_t* p = add + call.column + column + v * kLanes;
        first[v] = kCutsVectors && v == kVectors - 1 ? load(p, last) : load(p);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) tile.sums[r][v] = first[v];
  }
}

}  // namespace
}  // namespace lathe::cpu
