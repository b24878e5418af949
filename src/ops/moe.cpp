// SPDX-License-Identifier: MIT
// x is [tokens, hidden] or [b, s, hidden], router [tokens, experts] (logits), fc1 [experts, factor
// · inner, hidden], fc2 [experts, hidden, inner], fc3 as fc1 without the factor; biases [experts,
// outputs]. expert_scales [experts] multiply the weights of the selected experts.
#include "ops/support/dense_operand.h"
#include "ops/support/f32_result.h"
#include "ops/support/mixture_of_experts.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

enum Operand { kX, kRouter, kFc1, kBias1, kFc2, kBias2, kFc3, kBias3, kScales };

void infer_moe(Infer& c) {
  check_experts(c);
  const Dim& hidden = c.dim(kX, c.rank(kX) - 1);
  c.check(c.rank(kFc1) == 3 && c.rank(kFc2) == 3, "fc1 and fc2 have ranks {} and {}, expected 3",
          c.rank(kFc1), c.rank(kFc2));
  const Dim& inner = c.dim(kFc2, 2);
  const auto matrix = [&](int operand, const Dim& outputs, const Dim& inputs) {
    if (!c.has(operand)) return;
    c.check(c.rank(operand) == 3, "weights have rank {}, expected 3", c.rank(operand));
    c.require_equal(c.dim(operand, 0), c.dim(kRouter, 1), "experts of weights and router");
    c.require_equal(c.dim(operand, 1), outputs, "rows of an expert's weights");
    c.require_equal(c.dim(operand, 2), inputs, "columns of an expert's weights");
    if (!c.has(operand + 1)) return;
    c.check(c.rank(operand + 1) == 2, "a bias has rank {}, expected 2", c.rank(operand + 1));
    c.require_equal(c.dim(operand + 1, 0), c.dim(kRouter, 1), "experts of bias and router");
    c.require_equal(c.dim(operand + 1, 1), outputs, "elements of an expert's bias");
  };
  matrix(kFc1, inner * expert_factor(c), hidden);
  matrix(kFc2, hidden, inner);
  matrix(kFc3, inner, hidden);
  check_expert_scales(c, kScales);
}

void evaluate_moe(Evaluation& c) {
  Experts experts;
  experts.activation = expert_activation(c);
  experts.routing = {.k = c.integer("k"),
                     .normalise = c.boolean("normalize_routing_weights"),
                     .sparse = c.boolean("use_sparse_mixer")};
  experts.experts = c.in(kRouter).dims[1];
  c.check(!experts.activation.gated() || experts.activation.fusion != 0 || c.has(kFc3),
          "{} with swiglu_fusion 0 requires fc3", escape(c.text("activation_type")));
  std::array<DenseOperand, 8> given;
  for (int i = 0; i < 8; ++i) {
    if (c.has(i)) given[static_cast<size_t>(i)] = DenseOperand(c.in(i), ElementType::f32);
  }
  experts.matrix = [&](int64_t expert, int i) {
    const auto at = static_cast<size_t>(kFc1 + 2 * i);
    ExpertMatrix matrix;
    if (given[at].data() == nullptr) return matrix;
    matrix.outputs = given[at].extent(1);
    matrix.inputs = given[at].extent(2);
    matrix.weights = given[at].as<float>() + expert * matrix.outputs * matrix.inputs;
    const DenseOperand& bias = given[at + 1];
    if (bias.data() != nullptr) matrix.bias = bias.as<float>() + expert * matrix.outputs;
    return matrix;
  };
  const DenseOperand scales =
      c.has(kScales) ? DenseOperand(c.in(kScales), ElementType::f32) : DenseOperand();
  if (c.has(kScales)) experts.routing.scales = scales.as<float>();
  const F32Result y(c.out());
  const int64_t hidden = given[kX].extent(static_cast<size_t>(given[kX].rank() - 1));
  const int64_t rows = c.in(kRouter).dims[0];
  experts.run(given[kX].as<float>(), given[kRouter].as<float>(), y.data(), rows, hidden, c.pool);
  y.store();
}

}  // namespace

static const Register moe{{
    .name = "moe",
    .doc = "Mixture of experts: the weighted sum of each token's k selected experts.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"router_probs", kFloats},
                 {"fc1_weights", kFloats},
                 {"fc1_bias", kFloats, Arity::optional, 'T'},
                 {"fc2_weights", kFloats},
                 {"fc2_bias", kFloats, Arity::optional, 'T'},
                 {"fc3_weights", kFloats, Arity::optional},
                 {"fc3_bias", kFloats, Arity::optional, 'T'},
                 {"expert_scales", kFloats, Arity::optional}},
    .attributes = expert_attributes({}),
    .infer = infer_moe,
    .eval = evaluate_moe,
    .tokens = expert_tokens,
}};

}  // namespace lathe
