// SPDX-License-Identifier: MIT
// Evaluates scalar expressions over tensors: compiled once to a register program, run over chunks
// of elements by loops that the compiler vectorised.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ir/expr.h"
#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// Elements in memory, one every `stride`; stride 0 repeats the first. Packed types: stride 0 or 1.
struct ElementOperand {
  const void* data = nullptr;
  ElementType type = ElementType::f32;
  int64_t stride = 1;
};

// Immutable once made, and shared by any number of threads. The same bits on every processor.
class CompiledExpr {
 public:
  enum class Kernels : uint8_t { best, portable };
  explicit CompiledExpr(const Expr& expr, Kernels kernels = Kernels::best);
  ~CompiledExpr();
  CompiledExpr(CompiledExpr&&) noexcept;
  CompiledExpr& operator=(CompiledExpr&&) noexcept;

  ExprType type() const;          // of the result
  int operands() const;           // one more than the highest argument index
  int steps() const;              // operations per element
  int bytes_per_element() const;  // of scratch memory

  // `out` has `count` elements side by side. Types convert on loading and storing, by the rules of
  // Cast; `out_type` must compute in type(). Allocates nothing.
  void run(std::span<const ElementOperand> operands, void* out, ElementType out_type,
           int64_t count) const;

  struct Program;

 private:
  friend void evaluate_elementwise(const CompiledExpr& expr, std::span<const TensorView> inputs,
                                   const TensorView& out, ThreadPool* pool);
  std::unique_ptr<const Program> program_;
};

// Inputs broadcast to the extents of `out` by numpy's rules; any strides. `out` may be one of the
// inputs, under the same strides. Allocates nothing for up to 16 inputs.
void evaluate_elementwise(const CompiledExpr& expr, std::span<const TensorView> inputs,
                          const TensorView& out, ThreadPool* pool = nullptr);

}  // namespace lathe
