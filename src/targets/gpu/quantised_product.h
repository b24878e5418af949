// SPDX-License-Identifier: MIT
// Products of several rows, quantised to 8 bits, with weights of 4 bits: blocks are summed exactly.
#pragma once

#include <array>
#include <string>

#include "targets/gpu/unpacked_product.h"

namespace lathe::gpu {

class QuantisedProduct {
 public:
  static constexpr int64_t kBlock = 128;  // of weights
  // `weights`: the text that n_bits_weights.gpu takes, but for the epilogue's.
  QuantisedProduct(const GpuDevice& device, const Anchor& whole, const PackedShape& shape,
                   const std::string& weights);
  // Codes and factors of m rows.
  int64_t workspace_bytes(int64_t m) const;
  // Codes of weights must lie at multiples of 16 bytes. `overlap`: that of a product.
  void run(const LaunchArgs& args, const PackedOperands& operands, std::byte* workspace,
           Overlap overlap) const;

 private:
  const GpuDevice& device_;
  PackedShape shape_;
  LazyCode quantise_;
  LazyCode few_;
  LazyCode many_;
};

}  // namespace lathe::gpu
