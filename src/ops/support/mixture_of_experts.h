// SPDX-License-Identifier: MIT
// Mixture of experts: shared by moe and qmoe. For each token of x [tokens, hidden], the k experts
// with the largest logits compute y = fc2(f(fc1 · x)); the result is their weighted sum.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

class ThreadPool;

// The activation between the two matrix multiplications.
struct ExpertActivation {
  enum class Kind : uint8_t { relu, gelu, silu, identity, swiglu, geglu } kind = Kind::relu;
  // swiglu and geglu: 0: fc3 computes the values; 1: gates and values alternate; 2: all gates, then
  // all values.
  int64_t fusion = 0;
  float alpha = 1;
  float beta = 0;
  float limit = 0;  // 0: none

  bool gated() const { return kind == Kind::swiglu || kind == Kind::geglu; }
  // Columns of fc1 per column of fc2.
  int64_t factor() const { return gated() && fusion != 0 ? 2 : 1; }
};

std::vector<AttributeSpec> expert_attributes(std::vector<AttributeSpec> extra);
ExpertActivation expert_activation(const InstructionReader& c);
void check_experts(Infer& c);  // activation, k, x and router
Dim expert_factor(const Infer& c);
void check_expert_scales(Infer& c, int operand);  // [experts], where they are given
// InvalidArgument unless all are inputs of [0, hidden).
void check_input_order(std::span<const int32_t> order, int64_t hidden);

// An expert of a token, in ascending order, and its weight.
struct Route {
  int64_t expert;
  float weight;
};
// Logits are [tokens, experts]; ties take the first. `all`: weights are the softmax over all
// experts, divided by their sum if `normalise`; otherwise the softmax over the selected ones.
// `mix`: weights come from another operand. `sparse`: the two largest, each weighted by the softmax
// over the logits near it; the second excludes the first (SparseMixer, as in ONNX Runtime's CUDA
// kernels and PhiMoE).
struct Routing {
  int64_t k = 1;
  bool all = true;
  bool normalise = false;
  const float* mix = nullptr;
  bool sparse = false;
  const float* scales = nullptr;  // of each expert: its weight is multiplied
  // Selects the k experts of one token into the front of `routes`, which has one entry per expert.
  void choose(const float* logits, const float* mixing, std::span<Route> routes) const;

 private:
  static void choose_sparse(const float* logits, std::span<Route> routes);
  void choose_all(const float* logits, const float* mixing, std::span<Route> routes) const;
};

// One expert's matrix [outputs, inputs], row-major, and its bias (null: none).
struct ExpertMatrix {
  const float* weights = nullptr;
  int64_t outputs = 0;  // 0: absent
  int64_t inputs = 0;
  const float* bias = nullptr;
  ScratchArray<float> memory{};  // owns dequantised weights
  // In place of `weights`: codes minus zero points, for activations that are quantised to 8 bits in
  // blocks of as many elements as share a scale [outputs, inputs / block].
  ScratchArray<int16_t> codes{};
  ScratchArray<float> scales{};
  ScratchArray<float> zeros{};  // more to subtract from the codes of a block; or none
  int64_t block = 0;
};

// `matrix(expert, i)` returns fc1, fc2 or fc3 (i = 0, 1, 2).
struct Experts {
  ExpertActivation activation;
  Routing routing;
  int64_t experts = 0;
  const int32_t* order = nullptr;  // [experts, hidden], the input of each column of fc1 and fc3
  std::function<ExpertMatrix(int64_t expert, int i)> matrix;
  // x and y [tokens, hidden], logits [tokens, experts].
  void run(const float* x, const float* logits, float* y, int64_t rows, int64_t hidden,
           ThreadPool* pool) const;

 private:
  ScratchArray<float> apply(const float* x, int64_t rows, int64_t expert, ThreadPool* pool) const;
};

}  // namespace lathe
