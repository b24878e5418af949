// SPDX-License-Identifier: MIT
// Products with weights of few bits: "matmul_n_bits", of numbers m, n, k, bits and block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/adapter.h"
#include "bench/kernels/cases.h"

namespace lathe::bench {

std::unique_ptr<Ready> ready_weight_only(const Problem& problem, ThreadPool& pool);

// Layers of SmolLM2-135M and Llama-1B in 4 bits, blocks of 32 and 128.
std::vector<Case> weight_only_cases(int64_t rows);

// Tokens of Llama-1B in 4 bits with all weights read from memory (three copies in turn, 1.8 GB),
// activations quantised, beside plain reads of as many bytes of the same memory, in turns.
struct WeightStream {
  int64_t block = 0;
  std::string isa;
  double read = 0;  // bytes per second, medians
  double ours = 0;
  double share = 0;  // median of the ratios
  double low = 0;    // and their quartiles
  double high = 0;
};
WeightStream measure_weight_stream(int threads, int64_t block, int alternations);

}  // namespace lathe::bench
