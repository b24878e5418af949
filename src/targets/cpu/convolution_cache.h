// SPDX-License-Identifier: MIT
// The convolutions of one instruction, one for each set of extents that it has met, over weights
// that are packed once.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/weight_store.h"

namespace lathe::cpu {

struct PreparedConvolution {
  ConvProblem problem;
  ConvForm form = ConvForm::direct;
  bool channels_last = false;  // of y: no form writes it channels first
  std::unique_ptr<const Convolution> convolution;
  std::shared_ptr<const PackedWeights> weights;
};

class ConvolutionCache {
 public:
  explicit ConvolutionCache(Isa isa) : isa_(isa) {}
  ~ConvolutionCache();
  ConvolutionCache(const ConvolutionCache&) = delete;
  ConvolutionCache& operator=(const ConvolutionCache&) = delete;

  // Keeps the constant weights, with zero points of integers (null: none).
  void keep(const Tensor& weights, const Tensor* zeros);
  bool keeps() const { return weights_.has_value(); }
  // From the kept weights; without a lock where the extents have been met before.
  std::shared_ptr<const PreparedConvolution> find(const ConvProblem& problem) const;
  // From other weights, for one run.
  std::shared_ptr<const PreparedConvolution> make(const ConvProblem& problem, const Tensor& weights,
                                                  const std::vector<int32_t>& zeros) const;

 private:
  struct Node {
    std::shared_ptr<const PreparedConvolution> prepared;
    Node* next = nullptr;
  };
  std::shared_ptr<PreparedConvolution> shape(ConvProblem problem) const;
  static constexpr int kMost = 64;  // sets of extents that are remembered
  Isa isa_;
  std::optional<Tensor> weights_;
  std::optional<Tensor> zeros_;
  mutable std::atomic<Node*> first_{nullptr};
  mutable std::atomic<int> count_{0};
};

// Whether any form computes convolutions of these operands on this instruction set.
bool is_supported(Isa isa, ElementType x, bool transposed);

}  // namespace lathe::cpu
