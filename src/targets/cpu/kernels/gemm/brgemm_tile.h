// SPDX-License-Identifier: MIT
// Register tile of kRows rows and kVectors vectors of columns: accumulators stay in registers over
// all blocks.
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
constexpr int64_t kGroupBytes = kPanelColumns * 4;  // one group of k in a panel

// One struct per GEMM type: accumulators, vectors, and the dot product. It multiplies 4 bytes of A,
// broadcast to every lane, by a vector of B.
struct GemmF32 {
  using Sum = F32;
  using Element = float;
  static constexpr int kGroup = 1;
  static constexpr int kShift = 0;
  static constexpr bool kNative = true;
  static constexpr int kSpare = 1;      // registers for the broadcast of A and for widening
  static constexpr bool kSwaps = true;  // the dot product accepts A and B in either order
  static Sum zero() { return zero_f32(); }
  static F32 load_b(const char* p) { return load(reinterpret_cast<const float*>(p)); }
  static F32 broadcast(const char* p) { return set1(*reinterpret_cast<const float*>(p)); }
  static Sum dot(Sum sum, F32 a, F32 b) { return fma(a, b, sum); }
};

struct GemmBf16 {
  using Sum = F32;
  using Element = float;
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
  // Broadcasts the first element of a group; the second is zero.
  static I32 broadcast_one(const char* p) {
    return set1_low(*reinterpret_cast<const uint16_t*>(p));
  }
  static Sum dot(Sum sum, I32 a, I32 b) { return dot_bf16(sum, a, b); }
};

struct GemmU8S8 {
  using Sum = I32;
  using Element = int32_t;
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
  // Broadcasts the first `count` elements of a group; the others are zero.
  static I32 broadcast_first(const char* p, int64_t count) {
    const auto mask = static_cast<__mmask16>((1 << count) - 1);
    return {_mm512_broadcastd_epi32(_mm_maskz_loadu_epi8(mask, p))};
  }
#endif
  static Sum dot(Sum sum, I32 a, I32 b) { return dot_u8s8(sum, a, b); }
};

// A is shifted to unsigned by adding 128.
struct GemmS8S8 : GemmU8S8 {
  static constexpr int kShift = 128;
  static I32 shifted(I32 x) { return x ^ set1(static_cast<int32_t>(0x80808080)); }
  static I32 broadcast(const char* p) { return shifted(GemmU8S8::broadcast(p)); }
#if defined(__AVX512F__)
  static I32 broadcast_first(const char* p, int64_t count) {
    return shifted(GemmU8S8::broadcast_first(p, count));
  }
#endif
};

// Widest tile (nr in vectors) for many rows. Two panels halve the loads of A per FMA. On Zen 4, 14
// × 2 tiles take 1.02 to 2.3 times their FMA time, depending on the row stride; 6 × 4 tiles take
// 1.00 to 1.02.
template <class P>
constexpr int kTileVectors = kRegisters == 32 && P::kNative ? 2 * kPanelVectors : kPanelVectors;

// Most rows (mr) for a tile width: accumulators, vectors of B and spare registers fit the register
// file.
template <class P>
constexpr int max_rows(int vectors) {
  const int rows = (kRegisters - vectors - P::kSpare) / vectors;
  return rows < 1 ? 1 : rows > 14 ? 14 : rows;
}

// Copies the elements of an incomplete group; the destination is zeroed.
inline void copy_group(char* to, const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
}

// Pointers to the rows of A, one per three rows: few registers, and addressing modes cover the
// rest.
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
      __asm__("" : "+r"(at[i]));  // otherwise the compiler keeps, and spills, one pointer per row
    }
  }
};

template <class P, int kRows, int kVectors>
struct Tile {
  using Sum = typename P::Sum;
  Sum sums[kRows][kVectors];

  // Accumulates one group of k for rows kFirst to kEnd. `broadcast(r)` loads row r's group.
  template <int kOffset, int kFirst = 0, int kEnd = kRows, class Broadcast>
  inline __attribute__((always_inline)) void step(Broadcast&& broadcast, const char* b,
                                                  int64_t panel_stride) {
    decltype(P::load_b(b)) vectors[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = P::load_b(b + kOffset * kGroupBytes + v / kPanelVectors * panel_stride +
                             v % kPanelVectors * kLanes * 4);
    }
#pragma GCC unroll 16
    for (int r = kFirst; r < kEnd; ++r) {
      const auto x = broadcast(r);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        // As the last operand, a broadcast used once folds into the FMA as a memory operand.
        sums[r][v] = kVectors == 1 && P::kSwaps ? P::dot(sums[r][v], vectors[v], x)
                                                : P::dot(sums[r][v], x, vectors[v]);
      }
    }
    // Barrier: the compiler must not move loads or FMAs across groups, which would spill registers.
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

// Stores accumulators without an epilogue; all columns of the tile are in C.
template <class P, int kRows, int kVectors>
inline void store_sums(const BrgemmCall& call, int64_t row, int64_t column,
                       const Tile<P, kRows, kVectors>& tile) {
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * 4;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, out += call.out_stride) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      store(reinterpret_cast<typename P::Element*>(out) + v * kLanes, tile.sums[r][v]);
    }
  }
}

// Applies the call's epilogue to accumulators in memory, `stride` elements between rows. Not
// inlined: tiles of all sizes share it.
template <class P>
__attribute__((noinline)) void apply_epilogue_rows(const BrgemmCall& call, int64_t row,
                                                   int64_t column, const typename P::Element* sums,
                                                   int rows, int stride) {
  EpilogueTile part;
  part.columns = call.columns - column < stride ? call.columns - column : stride;
  const int64_t size = call.epilogue == nullptr ? 4 : out_size(call.epilogue->out);
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * size;
  if (call.epilogue == nullptr) {
    for (int r = 0; r < rows; ++r, out += call.out_stride, sums += stride) {
      for (int64_t c = 0; c < part.columns; c += kLanes) {
        store(reinterpret_cast<typename P::Element*>(out) + c, load(sums + c),
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
inline void apply_epilogue(const BrgemmCall& call, int64_t row, int64_t column,
                           const Tile<P, kRows, kVectors>& tile) {
  constexpr int kStride = kVectors * kLanes;
  alignas(64) typename P::Element buffer[kRows * kStride];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(buffer + r * kStride + v * kLanes, tile.sums[r][v]);
  }
  apply_epilogue_rows<P>(call, row, column, buffer, kRows, kStride);
}

constexpr int kMaxDecodeRows = 4;

// Tiles that apply the epilogue in registers; each adds code. Excluded: types that are widened,
// where widening dominates, shifted A, and low tiles of few columns.
template <class P, int kRows, int kVectors>
constexpr bool kAppliesInRegisters = P::kNative && P::kShift == 0 && kVectors <= kTileVectors<P> &&
                                     (kRows > kMaxDecodeRows || kVectors == kTileVectors<P>);
template <class P>
constexpr bool kHasIntegers = P::kGroup == 4;
constexpr int kLastLanes = kCutsVectors ? 1 : kLanes;  // least lanes used in a tile's last vector

// True if the tile applies its epilogue in registers: every vector has a column in C, all lanes
// where vectors are not masked.
template <class P, int kRows, int kVectors>
inline bool applies_in_registers(const BrgemmCall& call, int64_t column) {
  return kAppliesInRegisters<P, kRows, kVectors> && call.epilogue != nullptr &&
             call.epilogue->simple != nullptr && call.start == nullptr &&
             column + (kVectors - 1) * kLanes + kLastLanes <= call.columns &&
             fits_registers < kHasIntegers<P>,
         P::kGroup == 2 > (*call.epilogue->simple);
}

// Applies the epilogue to kCount rows from kFirst. Accumulators include column_compensation.
// kToF32: the results are f32.
template <class P, bool kToF32, int kFirst, int kCount, int kRows, int kVectors>
inline __attribute__((always_inline)) void apply_in_registers(
    const BrgemmCall& call, int64_t row, int64_t column, Mask last,
    const Tile<P, kRows, kVectors>& tile) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  row += kFirst;
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * out_size(e.out);
  RegisterTile<kHasIntegers<P> && !kToF32, P::kGroup == 2 && !kToF32, kCount, kVectors> finished{
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

// Prefetch per block. Each group of k prefetches `pace` bytes of each following panel from `begin`.
// The tiles of a panel share the work. Every four groups prefetch `rows` bytes of each row below.
// 0: the data is cached.
struct TilePrefetch {
  int64_t begin = 0;
  int64_t pace = 0;
  int64_t rows = 0;
  const char* other = nullptr;  // f32: memory read after the call, prefetched in place of panels
  int64_t step = 0;             // bytes by which the next tile's `begin` advances
};

// Prefetches the panels that follow the tile's own.
template <int kVectors>
struct PanelPrefetch {
  static constexpr int kPanels = (kVectors + kPanelVectors - 1) / kPanelVectors;
  static constexpr int kPrefetched = kPanels < 2 ? kPanels : 2;
  static constexpr int64_t kBytes = 128;  // prefetched per panel and step
  const char* first;
  int64_t panel_stride, step;

  PanelPrefetch(const char* b, int64_t stride, TilePrefetch prefetch)
      : first(prefetch.pace == 0 ? b : b + kPanels * stride + prefetch.begin),
        panel_stride(stride),
        step(4 * prefetch.pace) {}
  void redirect(const char* at) {
    first = at;
    panel_stride = kBytes;
    step = kPrefetched * kBytes;
  }
  // Two cache lines per panel: enough for panels of four tiles or more, most of the need of fewer.
  void prefetch() {
#pragma GCC unroll 2
    for (int i = 0; i < kPrefetched; ++i) {
      __builtin_prefetch(first + i * panel_stride, 0, 2);
      __builtin_prefetch(first + i * panel_stride + 64, 0, 2);
    }
    first += step;
  }
};

// Prefetches the cache lines that rows of C occupy.
inline __attribute__((noinline)) void prefetch_rows(const char* out, int64_t stride, int64_t width,
                                                    int rows) {
  constexpr int64_t kCacheLine = 64;
  if (stride == width) width = rows * stride, rows = 1;
  for (int r = 0; r < rows; ++r, out += stride) {
    for (int64_t at = 0; at < width; at += kCacheLine) __builtin_prefetch(out + at, 1);
    __builtin_prefetch(out + width - 1, 1);
  }
}

// Prefetches the tile of C by rows during its last FMAs, because store misses stall later stores.
// All at once would fill the miss buffers that loads need; an earlier prefetch would be evicted.
template <int kRows, int kVectors>
struct StorePrefetch {
  const char* out;
  int64_t stride, width;

  StorePrefetch(const BrgemmCall& call, int64_t row, int64_t column) : stride(call.out_stride) {
    const int64_t size = call.epilogue == nullptr ? 4 : out_size(call.epilogue->out);
    out = static_cast<const char*>(call.out) + row * stride + column * size;
    width = kVectors * kLanes * size;
  }
  // Prefetches the next row, or the last one again: a branch would interrupt the FMAs.
  void prefetch_row(bool next) {
    const int64_t quarter = width / 4;  // at most a cache line
    __builtin_prefetch(out, 1);
    __builtin_prefetch(out + quarter, 1);
    __builtin_prefetch(out + quarter * 2, 1);
    __builtin_prefetch(out + quarter * 3, 1);
    __builtin_prefetch(out + quarter * 4 - 1, 1);
    out += stride & -static_cast<int64_t>(next);
  }
  void prefetch_all() const { prefetch_rows(out, stride, width, kRows); }
};

// Accumulates an incomplete group as if it were zero-padded.
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
        [&](int r) __attribute__((always_inline)) { return P::broadcast_first(rows[r], rest); }, b,
        panel_stride);
#else
    alignas(4) char part[kRows * 4] = {};
    for (int r = 0; r < kRows; ++r) copy_group(part + r * 4, rows[r], rest);
    tile.template step<0>([&](int r) { return P::broadcast(part + r * 4); }, b, panel_stride);
#endif
  }
}

// Copies the call's initial accumulators, `stride` elements between rows; columns beyond the call
// are zero.
template <class P>
__attribute__((noinline)) void copy_start(const BrgemmCall& call, int64_t row, int64_t column,
                                          typename P::Element* to, int rows, int stride) {
  const auto* start =
      static_cast<const typename P::Element*>(call.start) + row * call.start_stride + column;
  for (int r = 0; r < rows; ++r, start += call.start_stride, to += stride) {
    for (int64_t c = 0; c < stride; c += kLanes) {
      store(to + c, load(start + c, columns_mask(call, column + c)));
    }
  }
}

// Initialises accumulators: zeros, the call's `start`, or the column compensation where integers
// are finished in registers.
template <class P, int kRows, int kVectors>
inline __attribute__((always_inline)) void init_sums(const BrgemmCall& call, int64_t row,
                                                     int64_t column, bool in_registers, Mask last,
                                                     Tile<P, kRows, kVectors>& tile) {
  if (call.start != nullptr) {
    constexpr int kStride = kVectors * kLanes;
    alignas(64) typename P::Element buffer[kRows * kStride];
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
  if constexpr (kAppliesInRegisters<P, kRows, kVectors> && kHasIntegers<P>) {
    const int32_t* add = in_registers ? call.epilogue->simple->column_compensation : nullptr;
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
