// SPDX-License-Identifier: MIT
// Winograd F(m, 3) in both axes, m = 2 or 4: a 3x3 convolution of stride 1 in f32 as (m + 2)² GEMMs
// over tiles. It takes 2.25 or 4 times fewer multiplications and (m + 2)² / 9 times the weights.
//
// Error: at most kappa · 2^-24 · max|x| · (sum of |w| of the output). kappa = 16 for m = 2 and 256
// for m = 4. Measured kappa on random inputs: 5 and 70; direct sum over 64 channels: 2.
#pragma once

#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/kernels/conv/winograd_table.h"
#include "targets/cpu/kernels/gemm/brgemm.h"

namespace lathe::cpu {

constexpr double winograd_error(int m) { return m == 2 ? 16 : 256; }

std::string why_not_winograd(const ConvProblem& problem, Isa isa);
// Estimated cycles of one thread that reads weights from memory.
double winograd_cycles(const ConvProblem& problem, int m);
double direct_cycles(const ConvProblem& problem);

// Packed weights: per frequency, the panels of a GEMM of [tiles, channels] with [channels,
// outputs].
class WinogradConvolution final : public Convolution {
 public:
  WinogradConvolution(const ConvProblem& problem, Isa isa, int m);
  std::string packing_id() const override;
  size_t packed_bytes() const override;
  void pack(const ConvWeights& weights, void* to, ThreadPool* pool) const override;
  void run(const ConvCall& call) const override;

 private:
  // Transformed inputs and outputs of some tiles: [frequency][tile][channel].
  struct Buffers {
    float* inputs = nullptr;
    float* sums = nullptr;
    int64_t input_pitch = 0, sum_pitch = 0;  // elements between frequencies
  };
  int64_t frequencies() const { return int64_t{m_ + 2} * (m_ + 2); }
  int64_t panel_bytes() const { return packed_panel_bytes(*kernel_, p_.channels); }
  int64_t panels() const { return panel_count(*kernel_, p_.outputs); }
  int64_t buffer_bytes(int64_t tile_rows) const;
  Buffers buffers(void* memory, int64_t tile_rows) const;
  // Tile rows `row` to row + count; `at` is the first one's index in the buffers.
  void transform_inputs(const float* x, int64_t row, int64_t count, int64_t at,
                        const Buffers& b) const;
  void multiply(const std::byte* weights, int64_t frequency, int64_t tiles, const Buffers& b) const;
  void transform_outputs(const ConvCall& call, int64_t n, int64_t row, int64_t count, int64_t at,
                         const Buffers& b) const;

  ConvProblem p_;
  Isa isa_;
  int m_;
  const BrgemmKernel* kernel_;
  const WinogradTable* table_;
  int64_t tile_rows_, tile_columns_;
  int64_t strip_ = 0;  // tile rows per chunk; 0: the whole image, one frequency at a time
};

}  // namespace lathe::cpu
