// SPDX-License-Identifier: MIT
// Converts weights between the file's layout and the packed one.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "base/error.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "targets/cpu/kernels/weight_only/weight_only_compact.h"
#include "targets/cpu/kernels/weight_only/weight_only_tile.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

int code_at(const uint8_t* from, int64_t index, int bits) {
  const int64_t bit = index * bits;
  const int low = from[bit >> 3] >> (bit & 7);
  const int high = (bit & 7) + bits > 8 ? from[(bit >> 3) + 1] << (8 - (bit & 7)) : 0;
  return (low | high) & ((1 << bits) - 1);
}
void put_code(uint8_t* to, int64_t index, int bits, int code) {
  const int64_t bit = index * bits;
  to[bit >> 3] = static_cast<uint8_t>(to[bit >> 3] | code << (bit & 7));
  if ((bit & 7) + bits > 8) {
    to[(bit >> 3) + 1] = static_cast<uint8_t>(to[(bit >> 3) + 1] | code >> (8 - (bit & 7)));
  }
}

// Reads a full tile; `from` is its first byte.
void read_tile(const uint8_t* from, int bits, Tile& to) {
  if (bits == 8) {
    std::memcpy(to.data(), from, kTile);
  } else if (bits == 4) {
    for (size_t i = 0; i < kTile / 2; ++i) {
      to[2 * i] = from[i] & 15;
      to[2 * i + 1] = from[i] >> 4;
    }
  } else {
    for (int i = 0; i < kTile; ++i)
      to[static_cast<size_t>(i)] = static_cast<uint8_t>(code_at(from, i, bits));
  }
}

int64_t file_blocks(const WeightOnlyProblem& p) { return (p.k + p.block - 1) / p.block; }
int64_t scale_bytes(const WeightOnlyProblem& p) { return bytes_for(p.scale_type, 1); }

// The file's block of each packed block's scale; empty if they are equal.
std::vector<int64_t> scale_origins(const WeightOnlyProblem& p, std::span<const int32_t> groups) {
  std::vector<int64_t> counts(static_cast<size_t>(file_blocks(p)));
  for (const int32_t group : groups) ++counts[static_cast<size_t>(group)];
  std::vector<int64_t> origins;
  for (size_t g = 0; g < counts.size(); ++g) {
    origins.insert(origins.end(), static_cast<size_t>((counts[g] + p.block - 1) / p.block),
                   static_cast<int64_t>(g));
  }
  return origins;
}

// Elements of each group in ascending order; each group is padded to full blocks with -1.
void fill_gather(const WeightOnlyProblem& p, const WeightOnlyLayout& layout,
                 std::span<const int32_t> groups, int32_t* gather) {
  std::fill_n(gather, layout.blocks * p.block, -1);
  const std::vector<int64_t> origins = scale_origins(p, groups);
  std::vector<int64_t> next(static_cast<size_t>(file_blocks(p)), -1);
  for (size_t b = origins.size(); b-- > 0;) {
    next[static_cast<size_t>(origins[b])] = static_cast<int64_t>(b) * p.block;
  }
  for (size_t k = 0; k < groups.size(); ++k) {
    gather[next[static_cast<size_t>(groups[k])]++] = static_cast<int32_t>(k);
  }
}

// Packs and unpacks panels of one source.
class Packer {
 public:
  Packer(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
         std::span<const int32_t> groups, const int32_t* gather)
      : p_(problem),
        layout_(layout),
        gather_(gather),
        origins_(gather == nullptr ? std::vector<int64_t>{} : scale_origins(problem, groups)),
        file_blocks_(file_blocks(problem)),
        column_bytes_(file_blocks_ * problem.block * problem.bits / 8),
        zero_pitch_((file_blocks_ * problem.bits + 7) / 8),
        cell_tiles_(std::max(problem.block / kTile, int64_t{1})),
        cell_blocks_(problem.block < kTile ? 2 : 1),
        tiles_(layout.cells * cell_tiles_) {}

  // Packs columns of the source from `first` on.
  void pack(const WeightOnlySource& source, int64_t first, int64_t columns, uint8_t* to) const {
    std::memset(to, 0, static_cast<size_t>(layout_.panel_bytes));
    Tile codes;
    for (int64_t t = 0; t < tiles_; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        read(source.codes + (first + c) * column_bytes_, t, codes);
        write_column(codes, p_.bits, c, to + tile_at(t));
      }
    }
    for (int64_t c = 0; c < columns; ++c) pack_scales(source, first + c, c, to);
  }

  // Calls pack(first, columns, to) for every panel, in parallel.
  void for_panels(void* packed, ThreadPool* pool,
                  const std::function<void(int64_t, int64_t, uint8_t*)>& pack) const {
    auto* to = static_cast<uint8_t*>(packed);
    const int64_t grain = std::max(int64_t{1}, (int64_t{1} << 16) / layout_.panel_bytes);
    parallel_for(pool, layout_.panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        pack(i * kPanel, std::min(kPanel, p_.n - i * kPanel), to + i * layout_.panel_bytes);
      }
    });
  }

  int64_t column_bytes() const { return column_bytes_; }

  void unpack(const uint8_t* from, int64_t panel, uint8_t* codes, uint8_t* scales,
              uint8_t* zeros) const {
    const int64_t columns = std::min(kPanel, p_.n - panel * kPanel);
    Tile tile;
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t n = panel * kPanel + c;
      for (int64_t t = 0; t < tiles_; ++t) {
        read_column(from + tile_at(t), p_.bits, c, tile);
        for (int64_t i = 0; i < kTile && t * kTile + i < layout_.blocks * p_.block; ++i) {
          const int64_t at = gather_ == nullptr ? t * kTile + i : gather_[t * kTile + i];
          if (at >= 0)
            put_code(codes + n * column_bytes_, at, p_.bits, tile[static_cast<size_t>(i)]);
        }
      }
      unpack_scales(from, n, c, scales, zeros);
    }
  }

  // Column `c` of a panel as f32.
  void read_row(const uint8_t* panel, int64_t c, float* to) const {
    Tile tile;
    for (int64_t t = 0; t < tiles_; ++t) {
      read_column(panel + tile_at(t), p_.bits, c, tile);
      dequantise_tile(tile, t, to, [&](int64_t b) { return factors_at(panel, b, c); });
    }
  }
  // The source's only column.
  void read_row(const WeightOnlySource& source, float* to) const {
    Tile tile;
    for (int64_t t = 0; t < tiles_; ++t) {
      read(source.codes, t, tile);
      dequantise_tile(tile, t, to, [&](int64_t b) {
        Factors out = middle();
        out.scale = as_float(p_.scale_type,
                             static_cast<const uint8_t*>(source.scales) + b * scale_bytes(p_));
        if (p_.zero_type) out.zero = static_cast<const float*>(source.zeros)[b];
        return out;
      });
    }
  }

 private:
  struct Factors {
    float scale, zero;
  };
  Factors middle() const { return {0, static_cast<float>(1 << (p_.bits - 1))}; }
  static float as_float(ElementType type, const void* from) {
    float value = 0;
    convert(ElementType::f32, &value, type, from, 1);
    return value;
  }
  Factors factors_at(const uint8_t* panel, int64_t b, int64_t c) const {
    Factors out = middle();
    out.scale = as_float(p_.scale_type, panel + scale_at(b, c));
    if (!p_.zero_type) return out;
    const uint8_t* zero = panel + zero_at(b, c);
    if (*p_.zero_type == ElementType::u8) {
      out.zero = *zero;
    } else {
      std::memcpy(&out.zero, zero, sizeof(float));
    }
    return out;
  }
  template <class FactorsOf>
  void dequantise_tile(const Tile& tile, int64_t t, float* to, const FactorsOf& factors_of) const {
    const int64_t step = std::min(p_.block, kTile);
    for (int64_t i = 0; i < kTile && t * kTile + i < p_.k; i += step) {
      const auto [scale, zero] = factors_of((t * kTile + i) / p_.block);
      const int64_t end = std::min(i + step, p_.k - t * kTile);
      for (int64_t at = i; at < end; ++at) {
        to[t * kTile + at] = (static_cast<float>(tile[static_cast<size_t>(at)]) - zero) * scale;
      }
    }
  }

  // Byte offset in a panel.
  int64_t tile_at(int64_t t) const {
    return t / cell_tiles_ * layout_.cell_bytes + t % cell_tiles_ * kTile * kPanel * p_.bits / 8;
  }
  int64_t scale_at(int64_t b, int64_t c) const {
    return b / cell_blocks_ * layout_.cell_bytes + layout_.scales_at +
           (b % cell_blocks_ * kPanel + c) * scale_bytes(p_);
  }
  int64_t zero_at(int64_t b, int64_t c) const {
    const int64_t size = *p_.zero_type == ElementType::u8 ? 1 : 4;
    return b / cell_blocks_ * layout_.cell_bytes + layout_.zeros_at +
           (b % cell_blocks_ * kPanel + c) * size;
  }

  void read(const uint8_t* column, int64_t t, Tile& codes) const {
    if (gather_ == nullptr && (t + 1) * kTile <= file_blocks_ * p_.block) {
      return read_tile(column + t * kTile * p_.bits / 8, p_.bits, codes);
    }
    const int64_t end = layout_.blocks * p_.block;
    for (int64_t i = 0; i < kTile; ++i) {
      const int64_t packed = t * kTile + i;
      const int64_t at = packed >= end ? -1 : gather_ == nullptr ? packed : gather_[packed];
      codes[static_cast<size_t>(i)] =
          at < 0 ? uint8_t{0} : static_cast<uint8_t>(code_at(column, at, p_.bits));
    }
  }

  int64_t origin(int64_t block) const {
    return gather_ == nullptr ? block : origins_[static_cast<size_t>(block)];
  }

  void pack_scales(const WeightOnlySource& source, int64_t n, int64_t c, uint8_t* to) const {
    const int64_t size = scale_bytes(p_);
    const auto* scales = static_cast<const uint8_t*>(source.scales) + n * file_blocks_ * size;
    const auto* zeros = static_cast<const uint8_t*>(source.zeros);
    for (int64_t b = 0; b < layout_.blocks; ++b) {
      const int64_t from = origin(b);
      std::memcpy(to + scale_at(b, c), scales + from * size, static_cast<size_t>(size));
      if (!p_.zero_type) continue;
      if (*p_.zero_type == ElementType::u8) {
        to[zero_at(b, c)] = static_cast<uint8_t>(code_at(zeros + n * zero_pitch_, from, p_.bits));
      } else {
        const int64_t width = bytes_for(*p_.zero_type, 1);
        convert(ElementType::f32, to + zero_at(b, c), *p_.zero_type,
                zeros + (n * file_blocks_ + from) * width, 1);
      }
    }
  }

  void unpack_scales(const uint8_t* from, int64_t n, int64_t c, uint8_t* scales,
                     uint8_t* zeros) const {
    const int64_t size = scale_bytes(p_);
    for (int64_t b = 0; b < layout_.blocks; ++b) {
      const int64_t at = origin(b);
      std::memcpy(scales + (n * file_blocks_ + at) * size, from + scale_at(b, c),
                  static_cast<size_t>(size));
      if (!p_.zero_type) continue;
      if (*p_.zero_type == ElementType::u8) {
        // All packed blocks of a group hold the same zero point, so ORing them is exact.
        put_code(zeros + n * zero_pitch_, at, p_.bits, from[zero_at(b, c)]);
      } else {
        const int64_t width = bytes_for(*p_.zero_type, 1);
        convert(*p_.zero_type, zeros + (n * file_blocks_ + at) * width, ElementType::f32,
                from + zero_at(b, c), 1);
      }
    }
  }

  const WeightOnlyProblem& p_;
  const WeightOnlyLayout& layout_;
  const int32_t* gather_;
  std::vector<int64_t> origins_;
  int64_t file_blocks_;
  int64_t column_bytes_;
  int64_t zero_pitch_;
  int64_t cell_tiles_;
  int64_t cell_blocks_;
  int64_t tiles_;
};

}  // namespace

WeightOnlyLayout weight_only_layout(const WeightOnlyProblem& p, std::span<const int32_t> groups) {
  WeightOnlyLayout out;
  out.blocks = file_blocks(p);
  if (p.grouped) {
    check(static_cast<int64_t>(groups.size()) == p.k, ErrorKind::invalid_model,
          "{} group indices, expected k = {}", groups.size(), p.k);
    for (const int32_t group : groups) {
      check(group >= 0 && group < out.blocks, ErrorKind::invalid_model,
            "group index {}, expected one of {} blocks", group, out.blocks);
    }
    out.blocks = static_cast<int64_t>(scale_origins(p, groups).size());
  }
  out.panels = (p.n + kPanel - 1) / kPanel;
  const int64_t cell_elements = std::max(p.block, kTile);
  const int64_t cell_blocks = cell_elements / p.block;
  out.cells = (out.blocks + cell_blocks - 1) / cell_blocks;
  out.scales_at = cell_elements * kPanel * p.bits / 8;
  out.cell_bytes = out.scales_at + cell_blocks * kPanel * scale_bytes(p);
  if (p.zero_type) {
    out.zeros_at = out.cell_bytes;
    out.cell_bytes += cell_blocks * kPanel * (*p.zero_type == ElementType::u8 ? 1 : 4);
  }
  out.panel_bytes = out.cells * out.cell_bytes;
  out.packed_panel_bytes = out.panel_bytes;
  if (p.compact) {
    const CompactCell cell(*p.compact);
    out.packed_panel_bytes = (p.k + cell.elements - 1) / cell.elements * cell.bytes;
  }
  out.bytes = out.panels * out.packed_panel_bytes;
  if (p.grouped) {
    out.gather_at = round_up(out.bytes, 64);
    out.bytes = out.gather_at + round_up(out.blocks * p.block * 4, 64);
  }
  return out;
}

std::string weight_only_packing_id(const WeightOnlyProblem& p) {
  return fmt::format(
      "weight-only 2: cells in panels of 16, {} by {}, {} bits, block {}, scales {}, zeros {}{}{}",
      p.k, p.n, p.bits, p.block, to_string(p.scale_type),
      p.zero_type ? to_string(*p.zero_type) : "none", p.grouped ? ", gathered" : "",
      p.compact ? fmt::format(", cells 2 in {} bits", p.compact->bits) : "");
}

void pack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                      const WeightOnlySource& source, void* packed, ThreadPool* pool) {
  auto* to = static_cast<uint8_t*>(packed);
  int32_t* gather = nullptr;
  if (problem.grouped) {
    gather = reinterpret_cast<int32_t*>(to + layout.gather_at);
    std::memset(gather, 0, static_cast<size_t>(layout.bytes - layout.gather_at));
    fill_gather(problem, layout, source.groups, gather);
  }
  const Packer packer(problem, layout, source.groups, gather);
  packer.for_panels(packed, pool, [&](int64_t first, int64_t columns, uint8_t* panel) {
    packer.pack(source, first, columns, panel);
  });
}

void pack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                      const MakeColumns& make, void* packed, ThreadPool* pool) {
  const Packer packer(problem, layout, {}, nullptr);
  const int64_t scales = layout.blocks * scale_bytes(problem);
  packer.for_panels(packed, pool, [&](int64_t first, int64_t columns, uint8_t* panel) {
    thread_local std::vector<uint8_t> codes_of_panel, scales_of_panel;
    thread_local std::vector<float> zeros_of_panel;
    codes_of_panel.resize(static_cast<size_t>(kPanel * packer.column_bytes()));
    scales_of_panel.resize(static_cast<size_t>(kPanel * scales));
    zeros_of_panel.resize(static_cast<size_t>(problem.zero_type ? kPanel * layout.blocks : 0));
    make(first, columns, {codes_of_panel.data(), scales_of_panel.data(), zeros_of_panel.data()});
    packer.pack({codes_of_panel.data(), scales_of_panel.data(), zeros_of_panel.data(), {}}, 0,
                columns, panel);
  });
}

void unpack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                        const void* packed, std::span<const int32_t> groups, uint8_t* codes,
                        void* scales, void* zeros) {
  const auto* from = static_cast<const uint8_t*>(packed);
  const int64_t blocks = file_blocks(problem);
  const auto clear = [](void* to, int64_t bytes) {
    std::memset(to, 0, static_cast<size_t>(bytes));
  };
  clear(codes, problem.n * blocks * problem.block * problem.bits / 8);
  clear(scales, bytes_for(problem.scale_type, problem.n * blocks));
  if (problem.zero_type == ElementType::u8) {
    clear(zeros, problem.n * ((blocks * problem.bits + 7) / 8));
  } else if (problem.zero_type) {
    clear(zeros, bytes_for(*problem.zero_type, problem.n * blocks));
  }
  const int32_t* gather =
      problem.grouped ? reinterpret_cast<const int32_t*>(from + layout.gather_at) : nullptr;
  const Packer packer(problem, layout, groups, gather);
  for (int64_t i = 0; i < layout.panels; ++i) {
    packer.unpack(from + i * layout.panel_bytes, i, codes, static_cast<uint8_t*>(scales),
                  static_cast<uint8_t*>(zeros));
  }
}

void weight_only_row(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                     const void* packed, int64_t n, float* to) {
  const Packer packer(problem, layout, {}, nullptr);
  const auto* panel = static_cast<const uint8_t*>(packed) + n / kPanel * layout.panel_bytes;
  packer.read_row(panel, n % kPanel, to);
}

void weight_only_row(const WeightOnlyProblem& problem, const WeightOnlySource& column, float* to) {
  const WeightOnlyLayout layout = weight_only_layout(problem);
  Packer(problem, layout, {}, nullptr).read_row(column, to);
}

}  // namespace lathe::cpu
