// SPDX-License-Identifier: MIT
#include "ops/support/pooling.h"

namespace lathe {

std::vector<AttributeSpec> pool_attributes(std::vector<AttributeSpec> extra) {
  extra.emplace_back("kernel_shape", AttributeKind::integers);
  extra.emplace_back("ceil_mode", Attribute(false));
  return window_attributes(std::move(extra));
}

std::vector<Dim> pool_dims(Infer& c) {
  c.check(c.rank(0) >= 3, "x has rank {}, expected at least 3", c.rank(0));
  const Integers& kernel = c.integers("kernel_shape");
  for (const int64_t extent : kernel) c.check(extent > 0, "kernel size {} is not positive", extent);
  std::vector<Dim> dims = {c.dim(0, 0), c.dim(0, 1)};
  const std::vector<Dim> spatial =
      window_dims(c, std::span(c.dims(0)).subspan(2),
                  std::vector<Dim>(kernel.begin(), kernel.end()), c.boolean("ceil_mode"));
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

void infer_global_pool(Infer& c) {
  c.check(c.rank(0) >= 3, "x has rank {}, expected at least 3", c.rank(0));
  std::vector<Dim> dims(static_cast<size_t>(c.rank(0)), Dim(1));
  dims[0] = c.dim(0, 0);
  dims[1] = c.dim(0, 1);
  c.result(c.element(0), std::move(dims));
}

void find_window(std::span<const WindowAxis> axes, int64_t output, PoolWindow& window) {
  std::array<int64_t, kMaxRank> position{};
  for (size_t i = axes.size(); i-- > 0; output /= axes[i].output) {
    position[i] = output % axes[i].output;
  }
  window.taps.assign(1, 0);
  window.padded = 1;
  std::vector<int64_t> wider;
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& axis = axes[i];
    const int64_t begin = position[i] * axis.stride - axis.pad_begin;
    int64_t padded = 0;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      if (begin + k * axis.dilation < axis.input + axis.pad_end) ++padded;
    }
    wider.clear();
    for (const int64_t tap : window.taps) {
      for (int64_t k = 0; k < axis.kernel; ++k) {
        const int64_t at = begin + k * axis.dilation;
        if (at >= 0 && at < axis.input) wider.push_back(tap * axis.input + at);
      }
    }
    std::swap(window.taps, wider);
    window.padded *= padded;
  }
}

}  // namespace lathe
