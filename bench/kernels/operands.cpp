// SPDX-License-Identifier: MIT
#include "bench/kernels/operands.h"

#include "base/error.h"

namespace lathe::bench {

using cpu::EpilogueStep;

CaseEpilogue::CaseEpilogue(const std::string& activation, std::vector<float> scales,
                           std::vector<float> bias, Tensor residual, int64_t columns,
                           ElementType out)
    : scales_(std::move(scales)),
      bias_(std::move(bias)),
      residual_(std::move(residual)),
      out_(out) {
  add_vector(EpilogueStep::Kind::mul, scales_);
  add_vector(EpilogueStep::Kind::add, bias_);
  if (residual_.count() > 0 && residual_.rank() > 0) {
    residual_step_ = steps_.size();
    EpilogueStep& step = steps_.emplace_back();
    step.kind = EpilogueStep::Kind::add;
    step.operand = {residual_.data(), residual_.type(), columns, 1, 1, 0};
  }
  if (activation == "none") return;
  EpilogueStep& step = steps_.emplace_back();
  step.kind = EpilogueStep::Kind::activate;
  step.a = 1;
  if (activation == "relu") step.activation = cpu::Activation::relu;
  if (activation == "gelu") step.activation = cpu::Activation::gelu;
  if (activation == "silu") step.activation = cpu::Activation::silu;
  if (activation == "hard_swish") step.activation = cpu::Activation::hard_swish;
}

void CaseEpilogue::add_vector(EpilogueStep::Kind kind, const std::vector<float>& values) {
  if (values.empty()) return;
  EpilogueStep& step = steps_.emplace_back();
  step.kind = kind;
  step.operand = {values.data(), ElementType::f32, 0, 1, 1, 0};
}

cpu::Epilogue CaseEpilogue::get() const {
  cpu::Epilogue epilogue;
  epilogue.steps = steps_;
  epilogue.out = out_;
  return epilogue;
}

}  // namespace lathe::bench
