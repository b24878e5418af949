// SPDX-License-Identifier: MIT
// Elementwise regions as generated code: one kernel for each combination of operands with one
// element per row, made at its first launch.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "codegen/kernel.h"
#include "ir/program.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/tensor.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

class GeneratedElementwise {
 public:
  // Null if there is no code for an operation or a type. `operands`: of the launch; the last of
  // `instructions` is the result.
  static std::unique_ptr<const GeneratedElementwise> make(
      std::span<const Value* const> operands, std::span<const Instruction* const> instructions,
      Isa isa);
  ~GeneratedElementwise();

  // False if nothing was computed: the result is strided along every axis, the system refuses
  // executable memory, or the kernel has too many values at once.
  bool run(std::span<const TensorView* const> in, const TensorView& y, ThreadPool* pool) const;

 private:
  struct Variant {
    uint32_t one_per_row = 0;  // bit per operand
    std::unique_ptr<const codegen::GeneratedKernel> kernel;
    std::unique_ptr<const Variant> next;
  };
  GeneratedElementwise() = default;
  const codegen::GeneratedKernel* variant(uint32_t one_per_row) const;

  codegen::Isa isa_ = codegen::Isa::avx2;
  codegen::KernelDescription kernel_;  // the result is its last operand
  std::vector<size_t> operands_;       // of the launch, for each but the last
  int64_t work_ = 1;                   // operations per element
  mutable std::atomic<const Variant*> variants_{nullptr};
};

}  // namespace lathe::cpu
