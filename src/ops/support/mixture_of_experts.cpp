// SPDX-License-Identifier: MIT
#include "ops/support/mixture_of_experts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/support/blocked_gemm.h"
#include "ops/support/number_order.h"

namespace lathe {
namespace {

using Kind = ExpertActivation::Kind;

struct KindName {
  std::string_view name;
  Kind kind;
};
constexpr std::array<KindName, 6> kKinds = {{{"relu", Kind::relu},
                                             {"gelu", Kind::gelu},
                                             {"silu", Kind::silu},
                                             {"identity", Kind::identity},
                                             {"swiglu", Kind::swiglu},
                                             {"geglu", Kind::geglu}}};

const KindName* find_kind(std::string_view name) {
  const auto* at = std::ranges::find(kKinds, name, &KindName::name);
  return at == kKinds.end() ? nullptr : at;
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// tanh form: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).
float gelu_tanh(float x) {
  constexpr float kRoot = 0.7978845608F;
  return 0.5F * x * (1 + std::tanh(kRoot * (x + 0.044715F * x * x * x)));
}

float gate(const ExpertActivation& f, float g, float value) {
  if (f.limit > 0) {
    g = std::min(g, f.limit);
    value = std::clamp(value, -f.limit, f.limit);
  }
  if (f.kind == Kind::geglu) return gelu_tanh(g) * (value + f.beta);
  return g * sigmoid(f.alpha * g) * (value + f.beta);
}

float activate(Kind kind, float x) {
  switch (kind) {
    case Kind::relu:
      return std::max(x, 0.0F);
    case Kind::gelu:
      return gelu_tanh(x);
    case Kind::silu:
      return x * sigmoid(x);
    default:
      return x;
  }
}

// y [outputs] = x [inputs] times the transposed matrix. As matmul_n_bits: per block an exact
// integer dot product times both scales, rounded once when added.
void multiply_integers(const float* x, const ExpertMatrix& matrix, float* y) {
  const int64_t blocks = matrix.inputs / matrix.block;
  const ScratchArray<int16_t> codes(matrix.inputs);
  const ScratchArray<float> scales(blocks);
  for (int64_t at = 0; at < blocks; ++at) {
    const float* from = x + at * matrix.block;
    float largest = 0;
    for (int64_t i = 0; i < matrix.block; ++i) largest = std::max(largest, std::abs(from[i]));
    scales.data()[at] = largest / 127;
    const float factor = largest == 0 ? 0 : 127 / largest;
    for (int64_t i = 0; i < matrix.block; ++i) {
      const float code = std::clamp(std::nearbyint(from[i] * factor), -127.0F, 127.0F);
      codes.data()[at * matrix.block + i] = static_cast<int16_t>(code);
    }
  }
  for (int64_t row = 0; row < matrix.outputs; ++row) {
    y[row] = 0;
    for (int64_t at = 0; at < blocks; ++at) {
      const int16_t* left = codes.data() + at * matrix.block;
      const int16_t* right = matrix.codes.data() + row * matrix.inputs + at * matrix.block;
      int32_t exact = 0;
      for (int64_t i = 0; i < matrix.block; ++i) exact += left[i] * right[i];
      const float scale = scales.data()[at] * matrix.scales.data()[row * blocks + at];
      auto value = static_cast<float>(exact);
      if (matrix.zeros.data() != nullptr) {
        const int32_t sum = std::accumulate(left, left + matrix.block, int32_t{0});
        value = std::fma(static_cast<float>(-sum), matrix.zeros.data()[row * blocks + at], value);
      }
      y[row] = std::fma(value, scale, y[row]);
    }
  }
}

// x [tokens, inputs] times the transposed matrix, plus its bias.
ScratchArray<float> multiply(const float* x, int64_t rows, const ExpertMatrix& matrix,
                             ThreadPool* pool) {
  const int64_t inputs = matrix.inputs;
  const int64_t outputs = matrix.outputs;
  ScratchArray<float> y(rows * outputs);
  if (matrix.block > 0) {
    parallel_for(pool, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        multiply_integers(x + i * inputs, matrix, y.data() + i * outputs);
      }
    });
  } else {
    const MatrixGemm<float> product(
        {ElementType::f32, x, 0, inputs, 1}, {ElementType::f32, matrix.weights, 0, 1, inputs},
        {ElementType::f32, y.data(), 0, outputs, 1}, rows, outputs, inputs);
    product.run(pool);
  }
  for (int64_t i = 0; matrix.bias != nullptr && i < rows * outputs; ++i) {
    y.data()[i] += matrix.bias[i % outputs];
  }
  return y;
}

}  // namespace

std::vector<AttributeSpec> expert_attributes(std::vector<AttributeSpec> extra) {
  std::vector<AttributeSpec> all = {{"k", 1},
                                    {"activation_type", "relu"},
                                    {"activation_alpha", 1.0},
                                    {"activation_beta", 0.0},
                                    {"normalize_routing_weights", Attribute(false)},
                                    {"swiglu_fusion", 0},
                                    {"swiglu_limit", 0.0},
                                    {"use_sparse_mixer", Attribute(false)}};
  std::ranges::move(extra, std::back_inserter(all));
  return all;
}

ExpertActivation expert_activation(const InstructionReader& c) {
  return {.kind = find_kind(c.text("activation_type"))->kind,
          .fusion = c.integer("swiglu_fusion"),
          .alpha = static_cast<float>(c.number("activation_alpha")),
          .beta = static_cast<float>(c.number("activation_beta")),
          .limit = static_cast<float>(c.number("swiglu_limit"))};
}

Dim expert_factor(const Infer& c) {
  const bool gated = c.text("activation_type") == "swiglu" || c.text("activation_type") == "geglu";
  return gated && c.integer("swiglu_fusion") != 0 ? 2 : 1;
}

void check_experts(Infer& c) {
  c.check(find_kind(c.text("activation_type")) != nullptr,
          "activation_type is '{}', expected relu, gelu, silu, identity, swiglu or geglu",
          escape(c.text("activation_type")));
  const int64_t fusion = c.integer("swiglu_fusion");
  c.check(fusion >= 0 && fusion <= 2, "swiglu_fusion is {}, expected 0, 1 or 2", fusion);
  c.check(c.integer("k") > 0, "k is {}, expected 1 or more", c.integer("k"));
  c.check(!c.boolean("use_sparse_mixer") || c.integer("k") == 2,
          "k is {}, use_sparse_mixer expects 2", c.integer("k"));
  c.check((c.rank(0) == 2 || c.rank(0) == 3) && c.rank(1) == 2,
          "x has rank {} and the router has rank {}, expected 2 or 3, and 2", c.rank(0), c.rank(1));
  const Dim rows = c.rank(0) == 3 ? c.dim(0, 0) * c.dim(0, 1) : c.dim(0, 0);
  c.require_equal(c.dim(1, 0), rows, "tokens of the router and of x");
  c.require_less_equal(c.integer("k"), c.dim(1, 1), "k and the number of experts");
  c.result(c.element(0), c.dims(0));
}

void check_expert_scales(Infer& c, int operand) {
  if (!c.has(operand)) return;
  c.check(c.rank(operand) == 1, "expert_scales have rank {}, expected 1", c.rank(operand));
  c.require_equal(c.dim(operand, 0), c.dim(1, 1), "expert_scales and experts of the router");
}

void check_input_order(std::span<const int32_t> order, int64_t hidden) {
  for (const int32_t input : order) {
    check(input >= 0 && input < hidden, ErrorKind::invalid_argument,
          "input_order has {}, expected less than {}", input, hidden);
  }
}

void Routing::choose_sparse(const float* logits, std::span<Route> routes) {
  constexpr float kNear = 2 * 0.01F;  // relative to the larger magnitude
  const auto experts = std::ssize(routes);
  int64_t first = -1;
  for (size_t i = 0; i < 2; ++i) {
    int64_t best = first == 0 ? 1 : 0;
    for (int64_t e = best + 1; e < experts; ++e) {
      if (e != first && logits[e] > logits[best]) best = e;
    }
    float total = 0;
    for (int64_t e = 0; e < experts; ++e) {
      const float distance = logits[best] - logits[e];
      // NaN is not far: it makes the total NaN.
      const bool is_far = distance > kNear * std::max(std::abs(logits[e]), logits[best]);
      if (e != first && !is_far) total += std::exp(-distance);
    }
    routes[i] = {best, 1 / total};
    first = best;
  }
  std::ranges::sort(routes.first(2), {}, &Route::expert);
}

void Routing::choose(const float* logits, const float* mixing, std::span<Route> routes) const {
  sparse ? choose_sparse(logits, routes) : choose_all(logits, mixing, routes);
  if (scales == nullptr) return;
  for (Route& route : routes.first(static_cast<size_t>(k))) route.weight *= scales[route.expert];
}

void Routing::choose_all(const float* logits, const float* mixing, std::span<Route> routes) const {
  int64_t next = 0;
  for (Route& route : routes) {
    route = {next, logits[next]};
    ++next;
  }
  std::ranges::sort(routes, [](const Route& a, const Route& b) {
    const int order = compare(a.weight, b.weight);
    return order != 0 ? order > 0 : a.expert < b.expert;
  });
  const float largest = routes.front().weight;
  float total = 0;
  for (Route& route : routes) {
    route.weight = std::exp(route.weight - largest);
    if (all) total += route.weight;
  }
  routes = routes.first(static_cast<size_t>(k));
  float chosen = 0;
  for (const Route& route : routes) chosen += route.weight;
  for (Route& route : routes) {
    route.weight /= all && !normalise ? total : chosen;
    if (mixing != nullptr) route.weight = mixing[route.expert];
  }
  std::ranges::sort(routes, {}, &Route::expert);
}

ScratchArray<float> Experts::apply(const float* x, int64_t rows, int64_t expert,
                                   ThreadPool* pool) const {
  const ExpertMatrix gates = matrix(expert, 0);
  const ScratchArray<float> first = multiply(x, rows, gates, pool);
  const int64_t columns = gates.outputs / activation.factor();
  ScratchArray<float> third;
  const bool separate = activation.gated() && activation.fusion == 0;
  const ExpertMatrix values = activation.factor() == 1 ? matrix(expert, 2) : ExpertMatrix{};
  if (values.outputs != 0) third = multiply(x, rows, values, pool);
  const ScratchArray<float> middle(rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float* row = first.data() + i / columns * gates.outputs;
    const int64_t at = i % columns;
    float& y = middle.data()[i];
    if (activation.factor() == 2) {
      y = activation.fusion == 1 ? gate(activation, row[2 * at], row[2 * at + 1])
                                 : gate(activation, row[at], row[columns + at]);
    } else if (separate) {
      y = gate(activation, row[at], third.data()[i]);
    } else {
      y = activate(activation.kind, row[at]);
      if (third.data() != nullptr) y *= third.data()[i];
    }
  }
  return multiply(middle.data(), rows, matrix(expert, 1), pool);
}

void Experts::run(const float* x, const float* logits, float* y, int64_t rows, int64_t hidden,
                  ThreadPool* pool) const {
  // k routes per token, followed by scratch for the selection.
  const ScratchArray<Route> routes(rows * routing.k + experts);
  for (int64_t row = 0; row < rows; ++row) {
    const float* mixing = routing.mix == nullptr ? nullptr : routing.mix + row * experts;
    routing.choose(logits + row * experts, mixing,
                   {routes.data() + row * routing.k, static_cast<size_t>(experts)});
  }
  const ScratchArray<int64_t> served(rows * routing.k);  // routes of one expert
  std::fill_n(y, rows * hidden, 0.0F);
  // Experts in ascending order: a token's sum is independent of other tokens.
  for (int64_t expert = 0; expert < experts; ++expert) {
    int64_t count = 0;
    for (int64_t i = 0; i < rows * routing.k; ++i) {
      if (routes.data()[i].expert == expert) served.data()[count++] = i;
    }
    if (count == 0) continue;
    const ScratchArray<float> part(count * hidden);
    float* to = part.data();
    for (int64_t i = 0; i < count; ++i) {
      const float* from = x + served.data()[i] / routing.k * hidden;
      for (int64_t j = 0; j < hidden; ++j) {
        *to++ = from[order == nullptr ? j : order[expert * hidden + j]];
      }
    }
    const ScratchArray<float> result = apply(part.data(), count, expert, pool);
    const float* from = result.data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = served.data()[i];
      float* row = y + at / routing.k * hidden;
      for (int64_t j = 0; j < hidden; ++j) row[j] += routes.data()[at].weight * *from++;
    }
  }
}

}  // namespace lathe
