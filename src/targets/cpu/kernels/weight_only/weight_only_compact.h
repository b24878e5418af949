// SPDX-License-Identifier: MIT
// Panels of compact weights, and the kernel table of an instruction set. GEMV reads them as they
// are, GEMM expands them to the plain form.
#pragma once

#include <array>
#include <cstdint>

#include "targets/cpu/kernels/weight_only/compact_form.h"
#include "targets/cpu/kernels/weight_only/weight_only_table.h"

namespace lathe::cpu {

// A cell of 16 columns along k. With byte scales: scales [blocks][16], minimums, the factors of
// both [16], then codes in tiles of 32 elements; else codes, scales, minimums: a kernel reads a
// cell in ascending order, which the hardware prefetcher follows. Tiles are those of the plain
// form; 5 and 6 bits have a tile of 4 bits, then one vector of high bits, quad q at bit q, or two
// as of 2 bits.
struct CompactCell {
  constexpr explicit CompactCell(CompactForm f)
      : elements(f.byte_scales ? 256 : kTile),
        blocks(elements / f.block),
        tile_bytes(kTile * kPanel * f.bits / 8),
        scales_at(f.byte_scales ? 0 : tile_bytes),
        minimums_at(scales_at + blocks * kPanel * (f.byte_scales ? 1 : 2)),
        factors_at(minimums_at + (f.minimums ? minimums_at - scales_at : 0)),
        minimum_factors_at(factors_at + (f.byte_scales ? kPanel * 2 : 0)),
        codes_at(f.byte_scales ? minimum_factors_at + (f.minimums ? kPanel * 2 : 0) : 0),
        bytes(f.byte_scales ? codes_at + elements / kTile * tile_bytes : factors_at) {}
  int64_t elements;
  int64_t blocks;
  int64_t tile_bytes;
  int64_t scales_at;
  int64_t minimums_at;
  int64_t factors_at;
  int64_t minimum_factors_at;
  int64_t codes_at;
  int64_t bytes;
};

// Compact panels from `data` on.
struct CompactPanels {
  const uint8_t* data = nullptr;
  int64_t panel_bytes = 0;
  int64_t cells = 0;
  const int8_t* levels = nullptr;
};
// A plain panel's cell: one tile with its scales and zero points.
struct PlainCells {
  uint8_t* data = nullptr;
  int64_t cell_bytes = 0;
  int64_t scales_at = 0;
  int64_t zeros_at = 0;
};

// Indexed by the form.
struct CompactTable {
  // Rows in blocks of `height`. Starts are those of the zero point zero_of(); with minimums, the
  // bits of the rows' totals of elements as f32.
  using Gemv = void (*)(const CompactPanels&, const QuantisedRows&, int64_t height,
                        const ColumnRange&);
  using Gemvs = std::array<Gemv, 3>;  // by rows - 1
  // Expands one panel, with minimums in the place of zero points.
  using Expand = void (*)(const CompactPanels&, const PlainCells&);
  int max_rows = 0;
  std::array<Gemvs, kCompactForms.size()> gemv{};
  std::array<Expand, kCompactForms.size()> expand{};
};
extern const CompactTable kCompactAvx2;
extern const CompactTable kCompactAvx2Vnni;
extern const CompactTable kCompactAvx512;
extern const CompactTable kCompactAvx512Vnni;

}  // namespace lathe::cpu
