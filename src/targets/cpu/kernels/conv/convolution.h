// SPDX-License-Identifier: MIT
// Convolutions: a problem, the forms that compute it, weights packed once, and the call.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/conv/conv_problem.h"
#include "targets/cpu/kernels/gemm/epilogue.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Weights as the model has them, dense: [outputs, channels / groups, kernel…], or [channels,
// outputs / groups, kernel…] of a transposed convolution. f32, bf16, i8 or u8.
struct ConvWeights {
  const void* data = nullptr;
  ElementType type = ElementType::f32;
  const int32_t* zero = nullptr;  // of integers, per output; null: zeros
};

// The epilogue's rows are the output positions of one image, its columns the output channels, in
// either layout; its column_compensation and outer products are the convolution's own and stay
// empty here.
struct ConvCall {
  const void* x = nullptr;
  const void* weights = nullptr;  // packed, aligned to 64
  void* y = nullptr;
  Epilogue epilogue;
  // Elements between images of the operands of the steps; empty: no operand has images.
  std::span<const int64_t> operand_images;
  const int32_t* integer_bias = nullptr;  // added to integer sums, per output
  int32_t x_zero = 0;                     // what padding means, too
  ThreadPool* pool = nullptr;
};

enum class ConvForm : uint8_t { depthwise, direct, winograd2, winograd4 };
inline constexpr int kConvFormCount = 4;
std::string_view to_string(ConvForm form);

// One form of one problem on one instruction set.
class Convolution {
 public:
  virtual ~Convolution() = default;
  // Names the layout of the packed weights: equal ids, equal bytes.
  virtual std::string packing_id() const = 0;
  virtual size_t packed_bytes() const = 0;
  virtual void pack(const ConvWeights& weights, void* to, ThreadPool* pool) const = 0;
  virtual void run(const ConvCall& call) const = 0;
};

// Why the form cannot compute the problem; empty if it can.
std::string why_not(ConvForm form, const ConvProblem& problem, Isa isa);
// Requires that it can.
std::unique_ptr<Convolution> make_convolution(ConvForm form, const ConvProblem& problem, Isa isa);
// The form that is expected to be fastest.
ConvForm choose_form(const ConvProblem& problem, Isa isa);

}  // namespace lathe::cpu
