// SPDX-License-Identifier: MIT
// Convolution with few outputs: `fold` adjacent outputs of a row are computed as the outputs of one
// position, by a kernel that covers what all of them read. Vectors are full, at the price of
// multiplications by zero. In memory the result is the same channels-last activation.
#pragma once

#include "targets/cpu/kernels/conv/conv_direct.h"

namespace lathe::cpu {

// Number of adjacent outputs with the least estimated time; 1: one alone, or not supported.
int64_t unfolding_of(const ConvProblem& problem, Isa isa);
std::string why_not_unfolded(const ConvProblem& problem, Isa isa);

class UnfoldedConvolution final : public Convolution {
 public:
  UnfoldedConvolution(const ConvProblem& problem, Isa isa);
  std::string packing_id() const override;
  size_t packed_bytes() const override { return inner_.packed_bytes(); }
  void pack(const ConvWeights& weights, void* to, ThreadPool* pool) const override;
  void run(const ConvCall& call) const override;

 private:
  bool is_whole() const { return p_.axes[2].output % fold_ == 0; }
  void run_apart(const ConvCall& call, std::byte* sums) const;

  ConvProblem p_;
  Isa isa_;
  int64_t fold_;
  DirectConvolution inner_;
  DirectConvolution apart_;  // stores f32, which a second pass reads
};

}  // namespace lathe::cpu
