// SPDX-License-Identifier: MIT
// Interface of convolutions: problem, form, packed weights, call.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/conv/conv_problem.h"
#include "targets/cpu/kernels/gemm/epilogue.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Dense weights as in the model: [outputs, channels / groups, kernel…], or [channels, outputs /
// groups, kernel…] for a transposed convolution. f32, bf16, i8 or u8.
struct ConvWeights {
  const void* data = nullptr;
  ElementType type = ElementType::f32;
  const int32_t* zero = nullptr;  // integers: zero point per output; null: zeros
};

// The epilogue's rows are output positions of one image and its columns output channels, in either
// layout. Its column_compensation and outer compensations must be empty: the convolution sets its
// own.
struct ConvCall {
  const void* x = nullptr;
  const void* weights = nullptr;  // packed, aligned to 64 bytes
  void* y = nullptr;
  Epilogue epilogue;
  // Elements between images of each step's operand; empty: operands are shared by all images.
  std::span<const int64_t> operand_images;
  const int32_t* integer_bias = nullptr;  // per output channel, added to integer accumulators
  const float* x_factors = nullptr;       // [batch, channels], if the problem scales x
  int32_t x_zero = 0;                     // zero point of x and value of padding
  ThreadPool* pool = nullptr;
};

enum class ConvForm : uint8_t { depthwise, direct, unfolded, winograd2, winograd4 };
inline constexpr int kConvFormCount = 5;
std::string_view to_string(ConvForm form);

// One algorithm for one problem on one instruction set.
class Convolution {
 public:
  virtual ~Convolution() = default;
  // Identifies the packed layout: equal ids have equal bytes.
  virtual std::string packing_id() const = 0;
  virtual size_t packed_bytes() const = 0;
  virtual void pack(const ConvWeights& weights, void* to, ThreadPool* pool) const = 0;
  virtual void run(const ConvCall& call) const = 0;
};

// Reason why the form does not support the problem; empty if it does.
std::string why_not(ConvForm form, const ConvProblem& problem, Isa isa);
// Throws Unsupported if why_not is not empty.
std::unique_ptr<Convolution> make_convolution(ConvForm form, const ConvProblem& problem, Isa isa);
// Returns the form with the least estimated time.
ConvForm choose_form(const ConvProblem& problem, Isa isa);

}  // namespace lathe::cpu
