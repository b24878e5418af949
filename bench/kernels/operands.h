// SPDX-License-Identifier: MIT
// Operands of Lathe's kernels in a benchmark case.
#pragma once

#include <string>
#include <vector>

#include "bench/kernels/inputs.h"
#include "targets/cpu/kernels/gemm/epilogue.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace lathe::bench {

inline ElementType element_type(const std::string& type, bool is_unsigned) {
  if (type == "f32") return ElementType::f32;
  if (type == "bf16") return ElementType::bf16;
  return is_unsigned ? ElementType::u8 : ElementType::i8;
}

inline Tensor tensor_of(ElementType type, const std::vector<float>& values) {
  Tensor out(type, {static_cast<int64_t>(values.size())});
  convert(type, out.data(), ElementType::f32, values.data(), out.count());
  return out;
}

inline std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.count()));
  convert(ElementType::f32, out.data(), tensor.type(), tensor.data(), tensor.count());
  return out;
}

// Memory aligned to a cache line.
inline Tensor bytes_of(size_t bytes) {
  return Tensor(ElementType::u8, {static_cast<int64_t>(bytes)});
}

// Epilogue: activation(scale · accumulator + bias + residual). Each part is optional.
class CaseEpilogue {
 public:
  // `residual`: [rows, columns], contiguous; may be empty.
  CaseEpilogue(const std::string& activation, std::vector<float> scales, std::vector<float> bias,
               Tensor residual, int64_t columns, ElementType out);
  cpu::Epilogue get() const;
  size_t residual_step() const { return residual_step_; }
  size_t steps() const { return steps_.size(); }

 private:
  void add_vector(cpu::EpilogueStep::Kind kind, const std::vector<float>& values);
  std::vector<float> scales_;
  std::vector<float> bias_;
  Tensor residual_;
  ElementType out_;
  size_t residual_step_ = SIZE_MAX;
  std::vector<cpu::EpilogueStep> steps_;
};

}  // namespace lathe::bench
