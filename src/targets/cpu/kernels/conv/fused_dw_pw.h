// SPDX-License-Identifier: MIT
// Depthwise and adjacent pointwise convolution in one pass: the intermediate stays in the caches of
// the thread that computes both.
#pragma once

#include <array>
#include <atomic>
#include <new>
#include <vector>

#include "targets/cpu/kernels/conv/conv_direct.h"
#include "targets/cpu/kernels/depthwise/depthwise.h"

namespace lathe::cpu {

// Two convolutions, channels-last; the second reads the output of the first.
struct FusedDwPwProblem {
  ConvProblem first;
  ConvProblem second;
};

// `first` supplies x and the pool, `second` supplies y; the other x, y and pool are ignored.
struct FusedDwPwCall {
  ConvCall first;
  ConvCall second;
};

// Reason why the pair is unsupported or gains nothing; empty if it should be fused.
std::string why_not_fused(const FusedDwPwProblem& problem, Isa isa);

class FusedDwPw {
 public:
  FusedDwPw(const FusedDwPwProblem& problem, Isa isa);
  // Weights are packed as by the separate convolutions; integer weights have zero points of 0.
  const Convolution& first() const;
  const Convolution& second() const;
  void run(const FusedDwPwCall& call) const;

 private:
  // Output rows of the depthwise convolution and panels of its channels.
  struct Chunk {
    int64_t h = 0, rows = 0, panel = 0, panels = 0;
  };
  // State shared by the chunks of a call: the epilogues of each image.
  struct Shared {
    explicit Shared(int64_t images) : first(images), second(images) {}
    ConvEpilogues first, second;
    const EpilogueStep* activation = nullptr;  // applied after the GEMM
    // Depthwise first, per chunk: the thread that prefetched its input beyond that of the previous
    // chunk. A thread is identified by its scratch.
    ScratchArray<std::atomic<const void*>> prefetched_by{};
  };
  void depthwise_first(const FusedDwPwCall& call, Shared& shared, int64_t n, size_t index) const;
  void pointwise_first(const FusedDwPwCall& call, const Shared& shared, int64_t n,
                       const Chunk& chunk) const;
  void depthwise_rows(const DepthwiseConvolution::OutputRows& out_rows,
                      const DepthwiseConvolution::Source& source, const ConvCall& call,
                      const Epilogue& epilogue, void* sums, std::byte* out,
                      int64_t out_stride) const;
  void cut_panels();
  int64_t row_cuts(int64_t threads) const;
  int64_t rows_per_step(int64_t row_bytes) const;
  int64_t ring_rows(int64_t rows) const;
  // Input rows read by the chunk's output rows, clipped to the input.
  int64_t first_row(const Chunk& chunk) const;
  int64_t last_row(const Chunk& chunk) const;

  FusedDwPwProblem p_;
  Isa isa_;
  bool depthwise_first_;
  const ConvProblem& wide_;  // the depthwise convolution
  DepthwiseConvolution depthwise_;
  DirectConvolution pointwise_;
  int64_t intermediate_size_;  // bytes of an element of the intermediate
  std::vector<Chunk> chunks_;  // of one image, depthwise first
  static constexpr size_t kPlans = 6;
  std::array<std::vector<Chunk>, kPlans> plans_;  // pointwise first: for 2^i threads
  size_t intermediate_bytes_ = 0;
};

}  // namespace lathe::cpu
