// SPDX-License-Identifier: MIT
// What is measured: the products and convolutions of graphs, and shapes of language models.
#pragma once

#include <string>
#include <vector>

#include "bench/kernels/problem.h"

namespace lathe::bench {

struct Case {
  std::string source;  // "resnet50"
  Problem problem;
  int64_t count = 1;  // how often it occurs
};

// Every distinct convolution and product of an ONNX graph at batch 1 and 128 positions, with the
// activations, biases and residuals that follow; types are left f32. The graph's weights may be
// missing: it is read with a file of zeros in their place.
std::vector<Case> cases_of_graph(const std::string& path);

// The five graphs of a folder; a message on standard error and an empty list if it is not there.
std::vector<Case> cases_of_graphs(const std::string& folder);

// Layers of SmolLM2-135M, Llama-1B and Llama-8B: f32 products of `rows` rows.
std::vector<Case> language_model_cases(int64_t rows);

// Square products, for the share of peak.
std::vector<Case> square_cases();

// Attention over a prompt and over a long cache; recurrent layers of 100 steps, in f32.
std::vector<Case> attention_cases();
std::vector<Case> recurrent_cases();

// ResNet-50's f32 convolutions once more: those that Winograd's form could compute in the direct
// one; and all with their weights from memory, which Winograd's form has more of.
std::vector<Case> convolutions_again(const std::vector<Case>& cases);
std::vector<Case> with_type(std::vector<Case> cases, const std::string& type);

}  // namespace lathe::bench
