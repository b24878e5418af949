// SPDX-License-Identifier: MIT
// Evaluates scalar expressions over tensors: compiled once to a register program, run over chunks
// of elements by vectorised loops.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ir/expr.h"
#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// Elements at a stride; stride 0 repeats the first one. Packed types require stride 0 or 1.
struct ElementOperand {
  const void* data = nullptr;
  ElementType type = ElementType::f32;
  int64_t stride = 1;
};

// Immutable and thread-safe. Results are bit-identical on every processor.
class CompiledExpr {
 public:
  enum class Kernels : uint8_t { best, portable };
  explicit CompiledExpr(const Expr& expr, Kernels kernels = Kernels::best);
  ~CompiledExpr();
  CompiledExpr(CompiledExpr&&) noexcept;
  CompiledExpr& operator=(CompiledExpr&&) noexcept;

  ExprType type() const;          // type of the result
  int operands() const;           // highest argument index plus one
  int steps() const;              // operations per element
  int bytes_per_element() const;  // scratch memory

  // `out` holds `count` contiguous elements. Loads and stores convert by the rules of Cast;
  // `out_type` must have the compute type type(). Does not allocate.
  void run(std::span<const ElementOperand> operands, void* out, ElementType out_type,
           int64_t count) const;

  struct Program;

 private:
  friend void evaluate_elementwise(const CompiledExpr& expr, std::span<const TensorView> inputs,
                                   const TensorView& out, ThreadPool* pool);
  std::unique_ptr<const Program> program_;
};

// Broadcasts inputs to the shape of `out` by numpy's rules; any strides. `out` may be one of the
// inputs, with equal strides. Does not allocate for up to 16 inputs.
void evaluate_elementwise(const CompiledExpr& expr, std::span<const TensorView> inputs,
                          const TensorView& out, ThreadPool* pool = nullptr);

}  // namespace lathe
