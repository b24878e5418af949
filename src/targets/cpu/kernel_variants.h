// SPDX-License-Identifier: MIT
// A generated kernel for each combination of operands with one element per row, made at its first
// launch. Equal descriptions share their code.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "codegen/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

class KernelVariants {
 public:
  // Null if there is no code for an operation or a type.
  static std::shared_ptr<const KernelVariants> make(codegen::KernelDescription kernel, Isa isa);
  ~KernelVariants();

  // By a bit per operand; null if the system refuses executable memory, or the kernel has too many
  // values at once.
  const codegen::GeneratedKernel* find(uint32_t one_per_row) const;

  // For benchmarks: the description, the combinations that have run, and all that are alive.
  const codegen::KernelDescription& description() const { return kernel_; }
  std::vector<uint32_t> found() const;
  static std::vector<std::shared_ptr<const KernelVariants>> all();

 private:
  struct Variant {
    uint32_t one_per_row = 0;
    std::unique_ptr<const codegen::GeneratedKernel> kernel;
    std::unique_ptr<const Variant> next;
  };
  KernelVariants(codegen::KernelDescription kernel, codegen::Isa isa)
      : kernel_(std::move(kernel)), isa_(isa) {}

  codegen::KernelDescription kernel_;
  codegen::Isa isa_;
  mutable std::atomic<const Variant*> variants_{nullptr};
};

}  // namespace lathe::cpu
