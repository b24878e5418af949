// SPDX-License-Identifier: MIT
// Softmax and normalisations over the last axis, with elementwise instructions before and after
// them, as generated code.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/program.h"
#include "targets/cpu/kernel_variants.h"
#include "tensor/tensor.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

class GeneratedRows {
 public:
  // Null if there is no code for an operation or a type. `operands`: of the launch; the last of
  // `instructions` is the result, of the shape of the rows.
  static std::unique_ptr<const GeneratedRows> make(std::span<const Value* const> operands,
                                                   std::span<const Instruction* const> instructions,
                                                   Isa isa);

  // False if nothing was computed: the system refuses executable memory, or the kernel has too many
  // values at once.
  bool run(std::span<const TensorView* const> in, const TensorView& y, ThreadPool* pool) const;

 private:
  GeneratedRows() = default;

  std::shared_ptr<const KernelVariants> variants_;
  std::vector<int> operands_;  // as of KernelForm, for each of the kernel's but the result
  int64_t work_ = 1;           // operations per element
};

}  // namespace lathe::cpu
