// SPDX-License-Identifier: MIT
// GEMV (small M) with packed weights: unpacks a panel's codes in registers and reads them once.
#pragma once

#include <type_traits>

#include "targets/cpu/kernels/weight_only/weight_only_unpack.h"

namespace lathe::cpu {
namespace {

inline I32 broadcast_quad(const int8_t* from) {
  int32_t quad;
  __builtin_memcpy(&quad, from, 4);
  return set1(quad);
}

// Stores one panel of y; columns after the last one are not written.
template <int kRows>
inline void store_panel(const F32 (&acc)[kParts][kRows], const ColumnRange& to, int64_t panel) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const int64_t column = panel * kPanel + part * kLanes;
    const int64_t left = to.columns - column;
    if (left <= 0) return;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const F32 bias = to.bias == nullptr ? zero_f32() : load(to.bias + column, mask);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      F32 x = acc[part][row];
      if (to.bias != nullptr) x = x + bias;
      store(to.y + row * to.y_stride + column, x, mask);
    }
  }
}

// Accumulators of one block of a panel, or of two blocks of 16 elements. Halves of tiles are
// separate.
template <int kBits, int kRows>
struct BlockAccumulators {
  I32 low[kParts][kRows];
  I32 high[kParts][kRows];

  // Starts the accumulators of a block with the zero-point compensation.
  static inline void start(I32 (&acc)[kParts][kRows], const PackedPanels& p, Place place,
                           const QuantisedRows& rows, int64_t block) {
    if (p.zeros == ZeroKind::floats) return start_from_zero(acc);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        acc[part][row] = set1(rows.starts[block * kRows + row]);
      }
      if (p.zeros == ZeroKind::middle) continue;
      const I32 zeros = load_zeros<kBits>(p, place, part);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        acc[part][row] = multiply_int16(zeros, acc[part][row]);
      }
    }
  }
  static inline void start_from_zero(I32 (&acc)[kParts][kRows]) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) acc[part][row] = zero_i32();
    }
  }

  [[gnu::always_inline]] inline void add_tile(const uint8_t* tile, const int8_t* a) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const I32 first = quad<kBits>(tile, q, part);
        const I32 last = quad<kBits>(tile, q + 4, part);
#pragma GCC unroll 8
        for (int row = 0; row < kRows; ++row) {
          const int8_t* from = a + row * kStep + q * 4;
          low[part][row] = dot_codes<kBits>(low[part][row], first, broadcast_quad(from));
          high[part][row] = dot_codes<kBits>(high[part][row], last, broadcast_quad(from + 16));
        }
      }
    }
  }
};

template <int kRows>
inline void add_scaled(F32 (&to)[kParts][kRows], const I32 (&acc)[kParts][kRows],
                       const PackedPanels& p, Place place, const QuantisedRows& rows,
                       int64_t block) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const F32 scales = load_scales(p, place, part);
    const bool floats = p.zeros == ZeroKind::floats;
    const F32 zeros = floats ? load_float_zeros(p, place, part) : zero_f32();
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const F32 scale = set1(rows.scales[block * kRows + row]) * scales;
      F32 sum = to_f32(acc[part][row]);
      if (floats) sum = add_zero_points(sum, zeros, rows.starts[block * kRows + row]);
      to[part][row] = fma(sum, scale, to[part][row]);
    }
  }
}

// Keeps a quantised row in L1 that a long panel would evict. Each block loads a part of it;
// a full pass takes as many weight bytes as L1 has room for. Reloads from L2 would occupy
// line-fill buffers that the weights need.
class L1ResidentRow {
 public:
  L1ResidentRow(const PackedPanels& p, const QuantisedRows& row) {
    constexpr int64_t kMaxTotalBytes = 28 << 10, kMaxRowBytes = 22 << 10;
    const int64_t factor_bytes = p.blocks * 4, codes = p.blocks * p.block;
    parts_[0] = {reinterpret_cast<const char*>(row.codes), codes};
    parts_[1] = {reinterpret_cast<const char*>(row.scales), factor_bytes};
    parts_[2] = {reinterpret_cast<const char*>(row.starts), factor_bytes};
    at_ = parts_[0].begin;
    stop_ = at_ + codes;
    const int64_t bytes = codes + 2 * factor_bytes;
    if (bytes + p.panel_bytes <= kMaxTotalBytes || bytes >= kMaxRowBytes) return;
    const int64_t count = bytes * p.cell_bytes / (kCacheLine * (kMaxRowBytes - bytes)) + 1;
    if (count * kCacheLine <= p.cell_bytes)
      bytes_ = count * kCacheLine;  // otherwise the loads cost too much
  }

  // Called once per block.
  inline void reload() {
    if (bytes_ == 0) return;
    for (const char* const end = at_ + bytes_ < stop_ ? at_ + bytes_ : stop_; at_ < end;
         at_ += kCacheLine) {
      int unused;
      __asm__ volatile("movl %1, %0" : "=r"(unused) : "m"(*at_));
    }
    if (at_ < stop_) return;
    next_ = next_ == 2 ? 0 : next_ + 1;
    at_ = parts_[next_].begin;
    stop_ = at_ + parts_[next_].bytes;
  }

 private:
  static constexpr int64_t kCacheLine = 64;
  struct Part {
    const char* begin;
    int64_t bytes;
  };
  Part parts_[3];
  const char *at_ = nullptr, *stop_ = nullptr;
  int64_t next_ = 0, bytes_ = 0;
};
struct NotResident {
  NotResident(const PackedPanels&, const QuantisedRows&) {}
  void reload() {}
};

// Panels are contiguous, but the hardware prefetcher alone is late, above all where a tile has many
// instructions: of 55 GB/s, compact Q6_K reads 0.57 without this, 0.93 with it, Q4_K 0.77 and 0.95;
// of 95 GB/s 0.42 and 0.85, 0.56 and 0.91 (Zen 5, 2 cores). 4 KiB are too few at 95 GB/s, 8 too
// many for small matrices.
template <int64_t kBytes, int kRows>
inline void fetch_ahead(const uint8_t* from) {
  constexpr int64_t kAhead = 6 << 10, kLine = 64;
  from += kAhead;
  if constexpr (kRows == 1) {
#pragma GCC unroll 9
    for (int64_t at = 0; at < kBytes; at += kLine) __builtin_prefetch(from + at, 0, 3);
  } else {  // smaller code
#pragma GCC unroll 1
    for (int64_t at = 0; at < kBytes; at += kLine) __builtin_prefetch(from + at, 0, 3);
  }
}

template <int kBits, int kRows, class Resident>
inline void multiply_panel(const PackedPanels& p, const uint8_t* cell, const QuantisedRows& rows,
                           Resident& resident, F32 (&acc)[kParts][kRows]) {
  int64_t k = 0;
  for (int64_t block = 0; block < p.blocks; ++block, cell += p.cell_bytes) {
    resident.reload();
    BlockAccumulators<kBits, kRows> exact;
    exact.start(exact.low, p, {cell, 0}, rows, block);
    exact.start_from_zero(exact.high);
    const uint8_t* const codes_end = cell + p.scales_at;
    for (const uint8_t* tile = cell; tile < codes_end; tile += kTileBytes<kBits>, k += kTile) {
      if (kRows == 1) fetch_ahead<kTileBytes<kBits> + 1, 1>(tile);
      exact.add_tile(tile, rows.codes + k / kStep * kStep * kRows + k % kStep);
    }
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        exact.low[part][row] = exact.low[part][row] + exact.high[part][row];
      }
    }
    add_scaled(acc, exact.low, p, {cell, 0}, rows, block);
  }
}

// Blocks of 16 elements: a tile has two.
template <int kBits, int kRows>
inline void multiply_half_tiles(const PackedPanels& p, const uint8_t* cell,
                                const QuantisedRows& rows, F32 (&acc)[kParts][kRows]) {
  for (int64_t block = 0; block < p.blocks; block += 2, cell += p.cell_bytes) {
    const bool both = block + 1 < p.blocks;
    const int64_t k = block * 16;
    BlockAccumulators<kBits, kRows> exact;
    exact.start(exact.low, p, {cell, 0}, rows, block);
    exact.start_from_zero(exact.high);
    if (both) exact.start(exact.high, p, {cell, 1}, rows, block + 1);
    if (kRows == 1) fetch_ahead<kTileBytes<kBits> + 2 * kPanel * 4, 1>(cell);
    exact.add_tile(cell, rows.codes + k / kStep * kStep * kRows + k % kStep);
    add_scaled(acc, exact.low, p, {cell, 0}, rows, block);
    if (both) add_scaled(acc, exact.high, p, {cell, 1}, rows, block + 1);
  }
}

template <int kRows>
inline void clear(F32 (&acc)[kParts][kRows]) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) acc[part][row] = zero_f32();
  }
}

template <int kBits, int kRows>
void multiply_gemv_rows(const PackedPanels& p, const QuantisedRows& rows, const ColumnRange& to) {
  std::conditional_t<kRows == 1, L1ResidentRow, NotResident> resident(p, rows);
  for (int64_t i = 0; i < to.panels; ++i) {
    const uint8_t* panel = p.data + i * p.panel_bytes;
    F32 acc[kParts][kRows];
    clear(acc);
    if (p.block < kTile) {
      multiply_half_tiles<kBits, kRows>(p, panel, rows, acc);
    } else {
      multiply_panel<kBits, kRows>(p, panel, rows, resident, acc);
    }
    store_panel<kRows>(acc, to, i);
  }
}

}  // namespace
}  // namespace lathe::cpu
