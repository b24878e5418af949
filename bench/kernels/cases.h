// SPDX-License-Identifier: MIT
// The measured cases: GEMMs and convolutions of graphs, and shapes of language models.
#pragma once

#include <string>
#include <vector>

#include "bench/kernels/problem.h"

namespace lathe::bench {

struct Case {
  std::string source;  // "resnet50"
  Problem problem;
  int64_t count = 1;  // occurrences
};

// Every distinct convolution and GEMM of an ONNX graph at batch 1 and 128 positions, with fused
// activations, biases and residuals, in f32. The weights of the graph are replaced by zeros, so
// they need not exist.
std::vector<Case> cases_of_graph(const std::string& path);

// Cases of the five graphs in a folder; skips missing graphs with a message on standard error.
std::vector<Case> cases_of_graphs(const std::string& folder);

// Layers of SmolLM2-135M, Llama-1B and Llama-8B: f32 GEMMs with M = `rows`.
std::vector<Case> language_model_cases(int64_t rows);

// Square GEMMs, for the share of peak.
std::vector<Case> square_cases();

// Prefill and decode attention; recurrent layers of 100 steps, in f32.
std::vector<Case> attention_cases();
std::vector<Case> recurrent_cases();

// Variants of ResNet-50's f32 convolutions: those that Winograd supports in the direct form, and
// all with cold weights, of which Winograd has more.
std::vector<Case> convolutions_again(const std::vector<Case>& cases);
std::vector<Case> with_type(std::vector<Case> cases, const std::string& type);

}  // namespace lathe::bench
