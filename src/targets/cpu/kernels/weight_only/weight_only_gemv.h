// SPDX-License-Identifier: MIT
// Few rows times packed weights: a panel's codes are unpacked in registers and read once.
#pragma once

#include <type_traits>

#include "targets/cpu/kernels/weight_only/weight_only_unpack.h"

namespace lathe::cpu {
namespace {

inline I32 broadcast_quad(const int8_t* from) {
  int32_t word;
  __builtin_memcpy(&word, from, 4);
  return set1(word);
}

// y of one panel: columns behind the last are left alone.
template <int kRows>
inline void store_panel(const F32 (&sums)[kParts][kRows], const ColumnRange& to, int64_t panel) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const int64_t column = panel * kPanel + part * kLanes;
    const int64_t left = to.columns - column;
    if (left <= 0) return;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const F32 bias = to.bias == nullptr ? zero_f32() : load(to.bias + column, mask);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      F32 x = sums[part][row];
      if (to.bias != nullptr) x = x + bias;
      store(to.y + row * to.y_stride + column, x, mask);
    }
  }
}

// One block of a panel, or two of 16 elements: the halves of tiles are summed apart.
template <int kBits, int kRows>
struct BlockSums {
  I32 low[kParts][kRows];
  I32 high[kParts][kRows];

  // The zero points' part of a block's sums.
  static inline void start(I32 (&sums)[kParts][kRows], const PackedPanels& p, Place place,
                           const QuantisedRows& rows, int64_t block) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        sums[part][row] = set1(rows.starts[block * kRows + row]);
      }
      if (p.zeros == ZeroKind::middle) continue;
      const I32 zeros = load_zeros<kBits>(p, place, part);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        sums[part][row] = multiply_words(zeros, sums[part][row]);
      }
    }
  }
  static inline void start_from_zero(I32 (&sums)[kParts][kRows]) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) sums[part][row] = zero_i32();
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
inline void add_scaled(F32 (&to)[kParts][kRows], const I32 (&sums)[kParts][kRows],
                       const PackedPanels& p, Place place, const QuantisedRows& rows,
                       int64_t block) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const F32 scales = load_scales(p, place, part);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const F32 scale = set1(rows.scales[block * kRows + row]) * scales;
      to[part][row] = fma(to_f32(sums[part][row]), scale, to[part][row]);
    }
  }
}

// A quantised row that a long panel pushes out of the first cache: some lines of it are touched
// with each block, all of them once in as many bytes of weights as there is room for. Read again
// from the second cache, they would take the few places that the first one has for lines on their
// way.
class KeptRow {
 public:
  KeptRow(const PackedPanels& p, const QuantisedRows& row) {
    constexpr int64_t kStays = 28 << 10, kRoom = 22 << 10;
    const int64_t numbers = p.blocks * 4, codes = p.blocks * p.block;
    parts_[0] = {reinterpret_cast<const char*>(row.codes), codes};
    parts_[1] = {reinterpret_cast<const char*>(row.scales), numbers};
    parts_[2] = {reinterpret_cast<const char*>(row.starts), numbers};
    at_ = parts_[0].begin;
    stop_ = at_ + codes;
    const int64_t bytes = codes + 2 * numbers;
    if (bytes + p.panel_bytes <= kStays || bytes >= kRoom) return;
    const int64_t lines = bytes * p.cell_bytes / (kLine * (kRoom - bytes)) + 1;
    if (lines * kLine <= p.cell_bytes) bytes_ = lines * kLine;  // else touching costs too much
  }

  // With each block.
  inline void touch() {
    if (bytes_ == 0) return;
    for (const char* const end = at_ + bytes_ < stop_ ? at_ + bytes_ : stop_; at_ < end;
         at_ += kLine) {
      int word;
      __asm__ volatile("movl %1, %0" : "=r"(word) : "m"(*at_));
    }
    if (at_ < stop_) return;
    next_ = next_ == 2 ? 0 : next_ + 1;
    at_ = parts_[next_].begin;
    stop_ = at_ + parts_[next_].bytes;
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Part {
    const char* begin;
    int64_t bytes;
  };
  Part parts_[3];
  const char *at_ = nullptr, *stop_ = nullptr;
  int64_t next_ = 0, bytes_ = 0;
};
struct NoRow {
  NoRow(const PackedPanels&, const QuantisedRows&) {}
  void touch() {}
};

// Panels lie one after the other: the processor fetches them on its own, and further ahead than
// requests of ours, which would take the few places that it has for lines on their way.
template <int kBits, int kRows, class Kept>
inline void multiply_panel(const PackedPanels& p, const uint8_t* cell, const QuantisedRows& rows,
                           Kept& kept, F32 (&sums)[kParts][kRows]) {
  int64_t k = 0;
  for (int64_t block = 0; block < p.blocks; ++block, cell += p.cell_bytes) {
    kept.touch();
    BlockSums<kBits, kRows> exact;
    exact.start(exact.low, p, {cell, 0}, rows, block);
    exact.start_from_zero(exact.high);
    const uint8_t* const codes_end = cell + p.scales_at;
    for (const uint8_t* tile = cell; tile < codes_end; tile += kTileBytes<kBits>, k += kTile) {
      exact.add_tile(tile, rows.codes + k / kStep * kStep * kRows + k % kStep);
    }
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        exact.low[part][row] = exact.low[part][row] + exact.high[part][row];
      }
    }
    add_scaled(sums, exact.low, p, {cell, 0}, rows, block);
  }
}

// Blocks of 16: a tile holds two.
template <int kBits, int kRows>
inline void multiply_half_tiles(const PackedPanels& p, const uint8_t* cell,
                                const QuantisedRows& rows, F32 (&sums)[kParts][kRows]) {
  for (int64_t block = 0; block < p.blocks; block += 2, cell += p.cell_bytes) {
    const bool both = block + 1 < p.blocks;
    const int64_t k = block * 16;
    BlockSums<kBits, kRows> exact;
    exact.start(exact.low, p, {cell, 0}, rows, block);
    exact.start_from_zero(exact.high);
    if (both) exact.start(exact.high, p, {cell, 1}, rows, block + 1);
    exact.add_tile(cell, rows.codes + k / kStep * kStep * kRows + k % kStep);
    add_scaled(sums, exact.low, p, {cell, 0}, rows, block);
    if (both) add_scaled(sums, exact.high, p, {cell, 1}, rows, block + 1);
  }
}

template <int kRows>
inline void clear(F32 (&sums)[kParts][kRows]) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) sums[part][row] = zero_f32();
  }
}

template <int kBits, int kRows>
void multiply_rows(const PackedPanels& p, const QuantisedRows& rows, const ColumnRange& to) {
  std::conditional_t<kRows == 1, KeptRow, NoRow> kept(p, rows);
  for (int64_t i = 0; i < to.panels; ++i) {
    const uint8_t* panel = p.data + i * p.panel_bytes;
    F32 sums[kParts][kRows];
    clear(sums);
    if (p.block < kTile) {
      multiply_half_tiles<kBits, kRows>(p, panel, rows, sums);
    } else {
      multiply_panel<kBits, kRows>(p, panel, rows, kept, sums);
    }
    store_panel<kRows>(sums, to, i);
  }
}

}  // namespace
}  // namespace lathe::cpu
