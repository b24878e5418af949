// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/half_panels.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::cpu {

[[gnu::weak]] const HalfPanelsKernel& half_panels_avx2();
[[gnu::weak]] const HalfPanelsKernel& half_panels_avx512();

const HalfPanelsKernel& half_panels_kernel(Isa isa) {
  return in_build(isa >= Isa::avx512 ? half_panels_avx512 : half_panels_avx2, isa)();
}

PackedLayout half_panels_layout(const BrgemmKernel& kernel, int64_t k, int64_t n) {
  PackedLayout layout = packed_layout(kernel, GemmType::f32, k, n);
  layout.panel_bytes /= 2;
  layout.bytes = layout.panels * layout.panel_bytes;
  return layout;
}

std::string half_panels_id(const BrgemmKernel& kernel, ElementType type) {
  return fmt::format("{}, held as {}", packing_id(kernel, GemmType::f32), to_string(type));
}

void pack_half_panels(const BrgemmKernel& kernel, const PackSource& source, void* out,
                      ThreadPool* pool) {
  const PackedLayout layout = half_panels_layout(kernel, source.k, source.n);
  const int64_t width = kernel.panel_columns;
  parallel_for(pool, layout.panels, 4, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * width;
      const int64_t columns = std::min(width, source.n - first);
      auto* to =
          reinterpret_cast<uint16_t*>(static_cast<std::byte*>(out) + panel * layout.panel_bytes);
      const auto* from = static_cast<const uint16_t*>(source.data) + first * source.n_stride;
      // Strips of k whose rows of the source stay in L1.
      constexpr int64_t kStrip = 64;
      for (int64_t k = 0; k < source.k; k += kStrip) {
        const int64_t rows = std::min(kStrip, source.k - k);
        for (int64_t c = 0; c < width; ++c) {
          const uint16_t* column = from + c * source.n_stride + k * source.k_stride;
          for (int64_t r = 0; r < rows; ++r) {
            to[(k + r) * width + c] = c < columns ? column[r * source.k_stride] : uint16_t{0};
          }
        }
      }
    }
  });
}

void unpack_half_panels(const BrgemmKernel& kernel, int64_t k, int64_t n, const void* packed,
                        void* rows) {
  const int64_t width = kernel.panel_columns;
  const auto* from = static_cast<const uint16_t*>(packed);
  auto* to = static_cast<uint16_t*>(rows);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t c = 0; c < n; c += width) {
      std::copy_n(from + (c / width * k + i) * width, std::min(width, n - c), to + i * n + c);
    }
  }
}

}  // namespace lathe::cpu
