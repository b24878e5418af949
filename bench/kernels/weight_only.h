// SPDX-License-Identifier: MIT
// Weight-only quantised GEMMs: "matmul_n_bits" with parameters m, n, k, bits and block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/adapter.h"
#include "bench/kernels/cases.h"

namespace lathe::bench {

std::unique_ptr<Ready> ready_weight_only(const Problem& problem, ThreadPool& pool);

// Layers of SmolLM2-135M and Llama-1B in int4, blocks of 32 and 128, with M = `rows`.
std::vector<Case> weight_only_cases(int64_t rows);

// Decode of int4 Llama-1B with weights read from memory (three rotating copies, 1.8 GB) and int8
// activations, in alternation with sequential reads of the same memory.
struct WeightStream {
  int64_t block = 0;
  std::string isa;
  double read = 0;  // bytes per second, medians
  double ours = 0;
  double share = 0;  // median of the ratios
  double low = 0;    // quartiles of the ratios
  double high = 0;
};
WeightStream measure_weight_stream(int threads, int64_t block, int alternations);

}  // namespace lathe::bench
