// SPDX-License-Identifier: MIT
// A product of dense rows: by cuBLASLt, else by the portable kernel.
#pragma once

#include "targets/gpu/kernel.h"
#include "targets/gpu/libraries/cublaslt.h"

namespace lathe::gpu {

class PlainProduct {
 public:
  // Rows of contiguous elements.
  struct Rows {
    void* data = nullptr;
    int64_t stride = 0;
  };
  // y[m, n] = a[m, k] · b[n, k]ᵀ and, where the library computes it, activation(… + residual +
  // bias).
  struct Operands {
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    Rows a = {};
    Rows b = {};
    Rows y = {};
    Rows residual = {};          // without data: none
    const void* bias = nullptr;  // n elements; null: none
    Activation activation = Activation::none;
    bool rows_vary = false;  // m, from run to run
  };

  PlainProduct(const GpuDevice& device, ElementType type);
  bool by_library() const { return by_library_; }
  int64_t workspace_bytes() const { return by_library_ ? CublasLt::kWorkspaceBytes : 0; }
  // Enqueues it. False: y has the product alone.
  bool run(const LaunchArgs& args, const Operands& operands, void* workspace) const;

 private:
  const GpuDevice& device_;
  ElementType type_;
  bool by_library_;
  uint32_t threads_;
  LazyCode code_;
};

}  // namespace lathe::gpu
