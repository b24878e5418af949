// SPDX-License-Identifier: MIT
// A depthwise convolution and its pointwise neighbour in one pass: what one gives the other stays
// in the caches of the thread that computes both.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <vector>

#include "targets/cpu/kernels/conv/conv_direct.h"
#include "targets/cpu/kernels/depthwise/depthwise.h"

namespace lathe::cpu {

// Two convolutions, the second reading what the first writes; all channels last.
struct FusedDwPwProblem {
  ConvProblem first;
  ConvProblem second;
};

// Each call's x, y and pool but the first one's x and pool and the second one's y are ignored.
struct FusedDwPwCall {
  ConvCall first;
  ConvCall second;
};

// Why the two cannot be computed together, or gain nothing; empty if they should.
std::string why_not_pair(const FusedDwPwProblem& problem, Isa isa);

class FusedDwPw {
 public:
  FusedDwPw(const FusedDwPwProblem& problem, Isa isa);
  // Weights are packed as each convolution packs its own; those of integers have zeros of 0.
  const Convolution& first() const;
  const Convolution& second() const;
  void run(const FusedDwPwCall& call) const;

 private:
  // Lines of the depthwise convolution's outputs and panels of its channels.
  struct Chunk {
    int64_t h = 0, lines = 0, panel = 0, panels = 0;
  };
  // What all chunks of a call share: the epilogues of each image.
  struct Shared {
    std::deque<ConvEpilogue> first, second;
    const EpilogueStep* activation = nullptr;  // left out of the first: to be done afterwards
    // By the chunk, if the depthwise one is first: the thread, known by its memory, that has asked
    // for what the chunk reads and the one before it did not.
    std::vector<std::atomic<const void*>> asked;
  };
  void depthwise_first(const FusedDwPwCall& call, Shared& shared, int64_t n, size_t index) const;
  void pointwise_first(const FusedDwPwCall& call, const Shared& shared, int64_t n,
                       const Chunk& chunk) const;
  void depthwise_lines(const DepthwiseConvolution::Lines& lines,
                       const DepthwiseConvolution::Source& source, const ConvCall& call,
                       const Epilogue& epilogue, void* sums, std::byte* out,
                       int64_t out_stride) const;
  void cut_panels();
  int64_t line_cuts(int64_t threads) const;
  int64_t lines_at_once(int64_t line_bytes) const;
  int64_t ring_lines(int64_t lines) const;
  // Lines read by those of outputs, cut to the input.
  int64_t first_line(const Chunk& chunk) const;
  int64_t last_line(const Chunk& chunk) const;

  FusedDwPwProblem p_;
  Isa isa_;
  bool depthwise_first_;
  const ConvProblem& wide_;  // the depthwise one
  DepthwiseConvolution depthwise_;
  DirectConvolution pointwise_;
  int64_t middle_size_;        // bytes of a number between the two
  std::vector<Chunk> chunks_;  // of one image, if the depthwise one is first
  static constexpr size_t kPlans = 6;
  std::array<std::vector<Chunk>, kPlans> plans_;  // else: for 2^i threads
  size_t middle_bytes_ = 0;
};

}  // namespace lathe::cpu
