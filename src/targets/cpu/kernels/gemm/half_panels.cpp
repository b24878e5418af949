// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/half_panels.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lathe::cpu {

[[gnu::weak]] const HalfPanelsKernel& half_panels_avx2();
[[gnu::weak]] const HalfPanelsKernel& half_panels_avx512();

const HalfPanelsKernel& half_panels_kernel(Isa isa) {
  return in_build(isa >= Isa::avx512 ? half_panels_avx512 : half_panels_avx2, isa)();
}

HalfGroups::HalfGroups(int64_t panel_count)
    : panels(panel_count), count((panel_count + kMaxGroupPanels - 1) / kMaxGroupPanels) {
  const int64_t unit = panels >= 16 ? 4 : panels >= 4 ? 2 : 1;
  count = (count + unit - 1) / unit * unit;
}

PackedLayout half_panels_layout(const BrgemmKernel& kernel, int64_t k, int64_t n) {
  PackedLayout layout = packed_layout(kernel, GemmType::f32, k, n);
  layout.panel_bytes /= 2;
  layout.bytes = layout.panels * layout.panel_bytes;
  return layout;
}

std::string half_panels_id(const BrgemmKernel& kernel, ElementType type) {
  return fmt::format("{} interleaved, held as {}", packing_id(kernel, GemmType::f32),
                     to_string(type));
}

void pack_half_panels(const BrgemmKernel& kernel, const PackSource& source, int64_t first_panel,
                      int64_t panels, void* out, ThreadPool* pool, HalfPart part) {
  const int64_t width = kernel.panel_columns;
  const HalfGroups groups(part.panels > 0 ? part.panels : panel_count(kernel, source.n));
  parallel_for(pool, panels, 4, [&](int64_t begin, int64_t end) {
    for (int64_t panel = first_panel + begin; panel < first_panel + end; ++panel) {
      const int64_t column = panel * width;
      const int64_t columns = std::min(width, source.n - column);
      const int64_t at = part.first + panel;
      const int64_t group = groups.group_of(at), first = groups.first(group);
      const int64_t pitch = (groups.first(group + 1) - first) * width;
      auto* to = static_cast<uint16_t*>(out) + first * width * source.k + (at - first) * width;
      const auto* from = static_cast<const uint16_t*>(source.data) + column * source.n_stride;
      // Strips of k whose rows of the source stay in L1.
      constexpr int64_t kStrip = 64, kMaxWidth = 64;
      std::array<uint16_t, kStrip * kMaxWidth> strip{};
      for (int64_t k = 0; k < source.k; k += kStrip) {
        const int64_t rows = std::min(kStrip, source.k - k);
        for (int64_t c = 0; c < columns; ++c) {
          const uint16_t* next = from + c * source.n_stride + k * source.k_stride;
          for (int64_t r = 0; r < rows; ++r) {
            strip[static_cast<size_t>(r * width + c)] = next[r * source.k_stride];
          }
        }
        for (int64_t r = 0; r < rows; ++r) {
          std::copy_n(strip.data() + r * width, width, to + (k + r) * pitch);
        }
      }
    }
  });
}

PanelColumn column_of_half_panels(const BrgemmKernel& kernel, const PackedLayout& layout,
                                  const void* packed, int64_t column) {
  constexpr int64_t kSize = 2;
  const int64_t width = kernel.panel_columns, panel = column / width;
  const HalfGroups groups(layout.panels);
  const int64_t group = groups.group_of(panel), first = groups.first(group);
  const int64_t pitch = (groups.first(group + 1) - first) * width * kSize;
  return {static_cast<const std::byte*>(packed) + first * layout.panel_bytes +
              ((panel - first) * width + column % width) * kSize,
          pitch, kSize};
}

void unpack_half_panels(const BrgemmKernel& kernel, int64_t k, int64_t n, bool grouped,
                        const void* packed, void* rows) {
  const int64_t width = kernel.panel_columns;
  const HalfGroups groups(panel_count(kernel, n));
  auto* to = static_cast<uint16_t*>(rows);
  for (int64_t panel = 0; panel < groups.panels; ++panel) {
    const int64_t group = grouped ? groups.group_of(panel) : 0;
    const int64_t first = grouped ? groups.first(group) : panel;
    const int64_t pitch = grouped ? (groups.first(group + 1) - first) * width : width;
    const auto* from =
        static_cast<const uint16_t*>(packed) + first * width * k + (panel - first) * width;
    const int64_t column = panel * width;
    for (int64_t i = 0; i < k; ++i) {
      std::copy_n(from + i * pitch, std::min(width, n - column), to + i * n + column);
    }
  }
}

}  // namespace lathe::cpu
