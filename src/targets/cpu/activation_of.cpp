// SPDX-License-Identifier: MIT
#include "targets/cpu/activation_of.h"

#include <algorithm>
#include <array>

#include "ir/ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

struct FastOp {
  const Op* op;
  Activation activation;
  std::string_view a{};  // attributes
  std::string_view b{};
};
constexpr std::array kFastOps{
    FastOp{&ops::relu, Activation::relu},
    FastOp{&ops::leaky_relu, Activation::leaky_relu, "alpha"},
    FastOp{&ops::sigmoid, Activation::sigmoid},
    FastOp{&ops::swish, Activation::silu, "alpha"},
    FastOp{&ops::tanh, Activation::tanh},
    FastOp{&ops::gelu, Activation::gelu},
    FastOp{&ops::elu, Activation::elu, "alpha"},
    FastOp{&ops::hard_sigmoid, Activation::hard_sigmoid, "alpha", "beta"},
    FastOp{&ops::hard_swish, Activation::hard_swish},
    FastOp{&ops::exp, Activation::exp},
    FastOp{&ops::erf, Activation::erf},
};

}  // namespace

std::optional<ActivationCall> activation_of(const Instruction& instruction) {
  const auto at = std::ranges::find(kFastOps, &instruction.op(), &FastOp::op);
  if (at == kFastOps.end()) return std::nullopt;
  const auto number = [&](std::string_view name) {
    return name.empty() ? 0.0F : static_cast<float>(attribute<double>(instruction, name));
  };
  ActivationCall call{at->activation, number(at->a), number(at->b)};
  if (instruction.op() == ops::gelu &&
      attribute<std::string>(instruction, "approximate") != "none") {
    call.activation = Activation::gelu_tanh;
  }
  return call;
}

}  // namespace lathe::cpu
