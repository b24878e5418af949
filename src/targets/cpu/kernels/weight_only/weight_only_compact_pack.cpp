// SPDX-License-Identifier: MIT
// Packs columns in compact forms.
#include <algorithm>
#include <cstring>
#include <vector>

#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "targets/cpu/kernels/weight_only/weight_only_compact.h"
#include "targets/cpu/kernels/weight_only/weight_only_tile.h"

namespace lathe::cpu {
namespace {

// Packs columns into one panel.
class CompactPacker {
 public:
  explicit CompactPacker(const WeightOnlyProblem& p)
      : form_(*p.compact),
        cell_(form_),
        width_((p.k + form_.block - 1) / form_.block * form_.block),
        blocks_(width_ / form_.block),
        cells_((width_ + cell_.elements - 1) / cell_.elements),
        codes_(sized(width_)),
        scales_(sized(blocks_ * scale_bytes())),
        minimums_(sized(blocks_ * scale_bytes())),
        factors_(sized(cells_)),
        minimum_factors_(sized(cells_)) {}

  void pack(const MakeCompactColumns& make, int64_t first, int64_t columns, uint8_t* to) {
    make(first, columns,
         {codes_.data(), scales_.data(), minimums_.data(), factors_.data(),
          minimum_factors_.data()});
    std::memset(to, 0, static_cast<size_t>(cells_ * cell_.bytes));
    for (int64_t c = 0; c < cells_; ++c, to += cell_.bytes) {
      for (int64_t column = 0; column < columns; ++column) pack_cell(c, column, to);
    }
  }

 private:
  static size_t sized(int64_t count) { return static_cast<size_t>(kPanel * count); }
  int64_t scale_bytes() const { return form_.byte_scales ? 1 : 2; }

  void pack_cell(int64_t cell, int64_t column, uint8_t* to) const {
    Tile tile;
    const uint8_t* from = codes_.data() + column * width_ + cell * cell_.elements;
    for (int64_t t = 0; t < cell_.elements / kTile; ++t, from += kTile) {
      std::memcpy(tile.data(), from, kTile);
      write_column(tile, form_.bits, column, to + cell_.codes_at + t * cell_.tile_bytes);
    }
    const int64_t size = scale_bytes();
    const auto copy_parts = [&](const std::vector<uint8_t>& parts, int64_t at) {
      const uint8_t* part = parts.data() + (column * blocks_ + cell * cell_.blocks) * size;
      for (int64_t b = 0; b < cell_.blocks; ++b, part += size) {
        std::memcpy(to + at + (b * kPanel + column) * size, part, static_cast<size_t>(size));
      }
    };
    copy_parts(scales_, cell_.scales_at);
    if (form_.minimums) copy_parts(minimums_, cell_.minimums_at);
    if (!form_.byte_scales) return;
    const int64_t at = column * cells_ + cell;
    std::memcpy(to + cell_.factors_at + column * 2, factors_.data() + at, 2);
    if (!form_.minimums) return;
    std::memcpy(to + cell_.minimum_factors_at + column * 2, minimum_factors_.data() + at, 2);
  }

  CompactForm form_;
  CompactCell cell_;
  int64_t width_;
  int64_t blocks_;
  int64_t cells_;
  std::vector<uint8_t> codes_, scales_, minimums_;
  std::vector<uint16_t> factors_, minimum_factors_;
};

}  // namespace

void pack_compact(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                  const MakeCompactColumns& make, void* packed, ThreadPool* pool) {
  auto* const to = static_cast<uint8_t*>(packed);
  const int64_t bytes = layout.packed_panel_bytes;
  const int64_t grain = std::max(int64_t{1}, (int64_t{1} << 18) / bytes);
  parallel_for(pool, layout.panels, grain, [&](int64_t begin, int64_t end) {
    CompactPacker packer(problem);
    for (int64_t i = begin; i < end; ++i) {
      packer.pack(make, i * kPanel, std::min(kPanel, problem.n - i * kPanel), to + i * bytes);
    }
  });
}

}  // namespace lathe::cpu
