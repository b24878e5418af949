// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "targets/cpu/kernels/common/transpose.h"
#include "targets/cpu/kernels/gemm/pack_table.h"
#include "tensor/float_formats.h"

namespace lathe::cpu {
namespace {

constexpr int kMaxColumns = 32;  // of a panel
constexpr int kTileRows = 64;    // rows of B transposed into groups together; they fit L1

bool takes(GemmType gemm, ElementType type) {
  switch (gemm) {
    case GemmType::f32:
    case GemmType::bf16:
      return type == ElementType::f32 || type == ElementType::bf16 || type == ElementType::f16;
    case GemmType::u8s8:
    case GemmType::s8s8:
      return type == ElementType::i8 || type == ElementType::u8;
  }
  return false;
}

template <class From>
float real_of(From x, ElementType type) {
  if constexpr (std::is_same_v<From, float>) return x;
  return type == ElementType::bf16 ? bf16_to_float(static_cast<uint16_t>(x))
                                   : half_to_float(static_cast<uint16_t>(x));
}

// Converts one element for a packing of To: float, uint16_t (bf16) or int8_t.
template <class To, class From>
To convert(From x, ElementType type) {
  if constexpr (std::is_same_v<To, int8_t>) {
    return static_cast<int8_t>(type == ElementType::u8 ? x ^ 0x80 : x);
  } else if constexpr (std::is_same_v<To, float>) {
    return real_of(x, type);
  } else {
    if constexpr (std::is_same_v<From, uint16_t>) {
      if (type == ElementType::bf16) return x;
    }
    return float_to_bf16(real_of(x, type));
  }
}

// Rows [first, first + rows) of some columns of B, converted; row stride kMaxColumns.
template <class To>
using PackTile = std::array<To, kTileRows * kMaxColumns>;

template <class To, class From>
void load_tile(const PackSource& source, int64_t first, int64_t rows, int64_t column,
               int64_t columns, PackTile<To>& tile) {
  const From* data = static_cast<const From*>(source.data);
  if (columns < kMaxColumns) tile.fill(To{});
  if (source.n_stride == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      const From* from = data + (first + r) * source.k_stride + column;
      To* to = tile.data() + r * kMaxColumns;
      if constexpr (std::is_same_v<To, From>) {
        if (source.type == ElementType::bf16 || source.type == ElementType::f32) {
          std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(To));
          continue;
        }
      }
      for (int64_t c = 0; c < columns; ++c) to[c] = convert<To>(from[c], source.type);
    }
    return;
  }
  for (int64_t c = 0; c < columns; ++c) {
    const From* from = data + (column + c) * source.n_stride + first * source.k_stride;
    for (int64_t r = 0; r < rows; ++r) {
      tile[static_cast<size_t>(r * kMaxColumns + c)] =
          convert<To>(from[r * source.k_stride], source.type);
    }
  }
}

// Returns rows [first, first + rows) without a copy if the columns are contiguous and fill a panel.
template <class To, class From>
const From* rows_in_place(const PackSource& source, int64_t first, int64_t column,
                          bool whole_panel) {
  constexpr bool same = sizeof(To) == sizeof(From);
  const bool converts = std::is_same_v<From, uint16_t> && source.type != ElementType::bf16;
  if (!same || converts || !whole_panel || source.n_stride != 1) return nullptr;
  return static_cast<const From*>(source.data) + first * source.k_stride + column;
}

// True if columns are contiguous, so that packing transposes whole groups of k.
template <class To, class From>
bool transposes_groups(const PackSource& source) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(To));
  constexpr bool same = sizeof(To) == sizeof(From) && kSize > 1;
  const bool converts = std::is_same_v<From, uint16_t> && source.type != ElementType::bf16;
  return same && !converts && source.k_stride == 1 && source.n_stride * kSize % 4 == 0 &&
         reinterpret_cast<uintptr_t>(source.data) % 4 == 0;
}

template <class To, class From>
void pack_panel(const BrgemmKernel& kernel, const PackSource& source, int64_t panel, char* out,
                int32_t* sums) {
  constexpr int kGroup = static_cast<int>(4 / sizeof(To));
  const int64_t width = kernel.panel_columns, column = panel * width;
  const int64_t columns = std::min<int64_t>(width, source.n - column);
  const bool transposes = transposes_groups<To, From>(source);
  PackTile<To> tile;
  int32_t totals[kMaxColumns] = {};
  for (int64_t first = 0; first < source.k; first += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, source.k - first);
    if (transposes && rows % kGroup == 0) {
      const int64_t bytes = rows / kGroup * width * 4;
      if (columns < width) std::memset(out, 0, static_cast<size_t>(bytes));
      const From* from = static_cast<const From*>(source.data) + column * source.n_stride + first;
      transpose_matrix(4, from, source.n_stride / kGroup, out, width, columns, rows / kGroup);
      out += bytes;
      continue;
    }
    const From* in_place = rows_in_place<To, From>(source, first, column, columns == width);
    if (in_place == nullptr) load_tile<To, From>(source, first, rows, column, columns, tile);
    const auto* from = in_place == nullptr ? tile.data() : reinterpret_cast<const To*>(in_place);
    const int64_t stride = in_place == nullptr ? kMaxColumns : source.k_stride;
    auto* to = reinterpret_cast<uint32_t*>(out);
    out += (rows + kGroup - 1) / kGroup * width * 4;
    if constexpr (kGroup == 2) {
      kPackAvx2.pairs(from, stride, rows, width, to);
    } else if constexpr (kGroup == 4) {
      const int flip = in_place != nullptr && source.type == ElementType::u8 ? 0x80 : 0;
      kPackAvx2.quads(reinterpret_cast<const uint8_t*>(from), stride, rows, width, flip, to,
                      totals);
    } else {
      const auto bytes = static_cast<size_t>(width) * sizeof(To);
      for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * width, from + r * stride, bytes);
    }
  }
  if (sums != nullptr) std::copy_n(totals, width, sums + column);
}

using PackPanel = void (*)(const BrgemmKernel&, const PackSource&, int64_t, char*, int32_t*);
PackPanel pack_function(GemmType gemm, ElementType type) {
  if (has_integer_sums(gemm)) return pack_panel<int8_t, uint8_t>;
  if (gemm == GemmType::f32) {
    return type == ElementType::f32 ? pack_panel<float, float> : pack_panel<float, uint16_t>;
  }
  return type == ElementType::f32 ? pack_panel<uint16_t, float> : pack_panel<uint16_t, uint16_t>;
}

}  // namespace

PackedLayout packed_layout(const BrgemmKernel& kernel, GemmType gemm, int64_t k, int64_t n) {
  PackedLayout out{k, n};
  out.panel_bytes = packed_panel_bytes(kernel, k);
  out.panels = panel_count(kernel, n);
  out.sums_offset = (out.panels * out.panel_bytes + 63) / 64 * 64;
  const int64_t sums = has_integer_sums(gemm) ? out.panels * kernel.panel_columns * 4 : 0;
  out.bytes = out.sums_offset + (sums + 63) / 64 * 64;
  return out;
}

std::string packing_id(const BrgemmKernel& kernel, GemmType gemm) {
  const char* type = gemm == GemmType::f32 ? "f32" : gemm == GemmType::bf16 ? "bf16" : "i8";
  return fmt::format("panels{}x{}-{}", kernel.panel_columns, kernel.k_group, type);
}

void pack_b(const BrgemmKernel& kernel, GemmType gemm, const PackSource& source, void* out,
            ThreadPool* pool) {
  check(takes(gemm, source.type), ErrorKind::invalid_argument,
        "packing as {}: type {} is not supported", packing_id(kernel, gemm),
        to_string(source.type));
  const PackedLayout layout = packed_layout(kernel, gemm, source.k, source.n);
  char* panels = static_cast<char*>(out);
  int32_t* sums =
      has_integer_sums(gemm) ? reinterpret_cast<int32_t*>(panels + layout.sums_offset) : nullptr;
  const PackPanel pack = pack_function(gemm, source.type);
  // Chunks of about 64 KiB take a few microseconds.
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, layout.panel_bytes));
  parallel_for(pool, layout.panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      pack(kernel, source, p, panels + p * layout.panel_bytes, sums);
    }
  });
}

void unpack_b(const BrgemmKernel& kernel, GemmType gemm, int64_t k, int64_t n, const void* packed,
              void* rows) {
  const int64_t size = 4 / kernel.k_group;
  const PackedLayout layout = packed_layout(kernel, gemm, k, n);
  const char* from = static_cast<const char*>(packed);
  char* to = static_cast<char*>(rows);
  for (int64_t i = 0; i < k; ++i) {
    const int64_t group = i / kernel.k_group * kernel.panel_columns;
    for (int64_t c = 0; c < n; ++c) {
      const char* panel = from + c / kernel.panel_columns * layout.panel_bytes;
      std::memcpy(to + (i * n + c) * size,
                  panel + (group + c % kernel.panel_columns) * 4 + i % kernel.k_group * size,
                  static_cast<size_t>(size));
    }
  }
}

PanelColumn column_of_b(const BrgemmKernel& kernel, const PackedLayout& layout, const void* packed,
                        int64_t column) {
  const int64_t width = kernel.panel_columns;
  return {static_cast<const std::byte*>(packed) + column / width * layout.panel_bytes +
              column % width * 4,
          width * 4, 4};
}

void read_column(const PanelColumn& column, int64_t bytes, void* to) {
  const std::byte* from = column.first;
  auto* next = static_cast<std::byte*>(to);
  const auto read = [&]<size_t Group>(std::integral_constant<size_t, Group>) {
    for (int64_t i = bytes / static_cast<int64_t>(Group); i > 0; --i, next += Group) {
      std::memcpy(next, from, Group);
      from += column.stride;
    }
  };
  if (column.group == 2) return read(std::integral_constant<size_t, 2>());
  read(std::integral_constant<size_t, 4>());
  if (bytes % 4 != 0) std::memcpy(next, from, 2);  // the last group has one element
}

}  // namespace lathe::cpu
