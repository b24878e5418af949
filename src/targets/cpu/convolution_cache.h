// SPDX-License-Identifier: MIT
// Convolutions of one instruction, one per input shape, over weights that are packed once.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/weight_store.h"
#include "targets/tuning.h"

namespace lathe::cpu {

struct PreparedConvolution {
  ConvProblem problem;
  ConvForm form = ConvForm::direct;
  bool channels_last = false;  // what it writes: not every form writes channels first
  std::unique_ptr<const Convolution> convolution;
  std::shared_ptr<const PackedWeights> weights;  // null unless the weights are kept
};

class ConvolutionCache {
 public:
  // Takes measured choices from the TuningScope in which it is made.
  explicit ConvolutionCache(Isa isa) : isa_(isa), tuning_(TuningScope::current()) {}
  ~ConvolutionCache();
  ConvolutionCache(const ConvolutionCache&) = delete;
  ConvolutionCache& operator=(const ConvolutionCache&) = delete;

  // Keeps the constant weights and integer zero points (null: none).
  void keep(const Tensor& weights, const Tensor* zeros);
  bool keeps() const { return weights_.has_value(); }
  // The measured choice for this shape; null: the cost model's.
  TunedProblem* tuned(const ConvProblem& problem) const;
  // Lock-free, without allocations, for a known shape. `tuned`: that of the shape. `packed`: the
  // form of packed weights, which is taken if it supports a new shape; null: the cost model's.
  std::shared_ptr<const PreparedConvolution> find(
      const ConvProblem& problem, const TunedProblem* tuned,
      const PreparedConvolution* packed = nullptr) const;
  std::shared_ptr<const PreparedConvolution> find(const ConvProblem& problem) const {
    return find(problem, tuned(problem));
  }
  // True if the choice is to run on the calling thread.
  static bool is_alone(const TunedProblem* tuned);

 private:
  struct Node {
    std::shared_ptr<const PreparedConvolution> prepared;
    Node* next = nullptr;
  };
  struct TunedNode {
    ConvProblem problem;
    TunedProblem* tuned = nullptr;
    TunedNode* next = nullptr;
  };
  std::shared_ptr<PreparedConvolution> shape(ConvProblem problem,
                                             std::optional<ConvForm> wanted) const;
  std::shared_ptr<const PackedWeights> packed(const PreparedConvolution& prepared) const;
  static constexpr int kMaxShapes = 64;  // shapes that are kept
  Isa isa_;
  std::shared_ptr<Tuning> tuning_;
  mutable std::atomic<TunedNode*> first_tuned_{nullptr};
  mutable std::atomic<int> tuned_count_{0};
  std::optional<Tensor> weights_;
  std::optional<Tensor> zeros_;
  mutable std::atomic<Node*> first_{nullptr};
  mutable std::atomic<int> count_{0};
};

// One zero point per output channel: those given, or the only one repeated in `memory`. Null if
// none are given.
const int32_t* zero_per_output(std::span<const int32_t> given, std::span<int32_t> memory);

// True if a form supports these operands on this instruction set.
bool is_supported(Isa isa, ElementType x, bool transposed);

}  // namespace lathe::cpu
