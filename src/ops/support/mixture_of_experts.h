// SPDX-License-Identifier: MIT
// Mixtures of experts: what moe and qmoe share. Per row of x [rows, hidden], the k experts with the
// largest logits compute y = fc2(f(fc1 · x)), and their results are added with weights.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

class ThreadPool;

// What lies between the two products.
struct ExpertActivation {
  enum class Kind : uint8_t { relu, gelu, silu, identity, swiglu, geglu } kind = Kind::relu;
  // Of swiglu and geglu: 0: the values are a third product; 1: gate and value alternate; 2: all
  // gates come before all values.
  int64_t fusion = 0;
  float alpha = 1;
  float beta = 0;
  float limit = 0;  // 0: none

  bool gated() const { return kind == Kind::swiglu || kind == Kind::geglu; }
  // Columns of the first product per column of the second.
  int64_t factor() const { return gated() && fusion != 0 ? 2 : 1; }
};

std::vector<AttributeSpec> expert_attributes(std::vector<AttributeSpec> extra);
ExpertActivation expert_activation(const Evaluation& c);
void check_experts(Infer& c);  // activation, k, x and router
Dim expert_factor(const Infer& c);

// Which experts serve a row, ascending, and with which weight.
struct Route {
  int64_t expert;
  float weight;
};
// Logits [rows, experts]; equal ones go to the first. `all`: weights are shares of the softmax over
// all experts, divided by their sum if `normalise`; otherwise of the softmax over the chosen ones.
// `mix`: weights are taken from there instead. `sparse`: the two largest, each with its share of
// the softmax over the logits near it, the first not counted for the second (SparseMixer, as ONNX
// Runtime's CUDA kernels and PhiMoE have it).
struct Routing {
  int64_t k = 1;
  bool all = true;
  bool normalise = false;
  const float* mix = nullptr;
  bool sparse = false;
  // Of one row: the k chosen become the first of `routes`, which has room for all experts.
  void choose(const float* logits, const float* mixing, std::span<Route> routes) const;

 private:
  static void choose_sparse(const float* logits, std::span<Route> routes);
};

// One expert's matrix [outputs, inputs], row-major in f32, and its bias (null: none).
struct ExpertMatrix {
  const float* weights = nullptr;  // null: there is none
  int64_t outputs = 0;
  int64_t inputs = 0;
  const float* bias = nullptr;
  ScratchArray<float> memory{};  // of weights that were made for this
};

// `matrix(expert, i)` gives matrices fc1, fc2 and fc3 (i = 0, 1, 2).
struct Experts {
  ExpertActivation activation;
  Routing routing;
  int64_t experts = 0;
  std::function<ExpertMatrix(int64_t expert, int i)> matrix;
  // x and y [rows, hidden], logits [rows, experts].
  void run(const float* x, const float* logits, float* y, int64_t rows, int64_t hidden,
           ThreadPool* pool) const;

 private:
  ScratchArray<float> apply(const float* x, int64_t rows, int64_t expert, ThreadPool* pool) const;
};

}  // namespace lathe
