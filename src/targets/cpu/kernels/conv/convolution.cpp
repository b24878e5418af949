// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/convolution.h"

#include <algorithm>

#include "base/error.h"
#include "targets/cpu/kernels/conv/conv_direct.h"
#include "targets/cpu/kernels/conv/unfolded.h"
#include "targets/cpu/kernels/conv/winograd.h"
#include "targets/cpu/kernels/depthwise/depthwise.h"

namespace lathe::cpu {

std::string_view to_string(ConvForm form) {
  constexpr std::array<std::string_view, kConvFormCount> kNames = {
      "depthwise", "direct", "unfolded", "winograd2", "winograd4"};
  return kNames[static_cast<size_t>(form)];
}

// Supported types: x as in GEMM, y as in the epilogue.
static std::string why_not_types(const ConvProblem& p) {
  using Type = ElementType;
  const auto is_one = [](Type type, std::initializer_list<Type> list) {
    return std::find(list.begin(), list.end(), type) != list.end();
  };
  if (!is_one(p.x_type, {Type::f32, Type::bf16, Type::u8, Type::i8}))
    return fmt::format("x is {}, expected f32, bf16, u8 or i8", to_string(p.x_type));
  if (!is_one(p.y_type, {Type::f32, Type::bf16, Type::f16, Type::u8, Type::i8, Type::i32}))
    return fmt::format("y is {}, expected f32, bf16, f16, u8, i8 or i32", to_string(p.y_type));
  return {};
}

std::string why_not(ConvForm form, const ConvProblem& problem, Isa isa) {
  if (std::string reason = why_not_types(problem); !reason.empty()) return reason;
  switch (form) {
    case ConvForm::depthwise:
      return why_not_depthwise(problem, isa);
    case ConvForm::direct:
      return why_not_direct(problem, isa);
    case ConvForm::unfolded:
      return why_not_unfolded(problem, isa);
    default:
      return why_not_winograd(problem, isa);
  }
}

std::unique_ptr<Convolution> make_convolution(ConvForm form, const ConvProblem& problem, Isa isa) {
  const std::string reason = why_not(form, problem, isa);
  check(reason.empty(), ErrorKind::unsupported, "convolution {} as {}: {}", problem.text(),
        to_string(form), reason);
  switch (form) {
    case ConvForm::depthwise:
      return std::make_unique<DepthwiseConvolution>(problem, isa);
    case ConvForm::unfolded:
      return std::make_unique<UnfoldedConvolution>(problem, isa);
    case ConvForm::winograd2:
      return std::make_unique<WinogradConvolution>(problem, isa, 2);
    case ConvForm::winograd4:
      return std::make_unique<WinogradConvolution>(problem, isa, 4);
    default:
      return std::make_unique<DirectConvolution>(problem, isa);
  }
}

ConvForm choose_form(const ConvProblem& problem, Isa isa) {
  if (unfolding_of(problem, isa) > 1) return ConvForm::unfolded;
  if (why_not(ConvForm::depthwise, problem, isa).empty()) return ConvForm::depthwise;
  if (!why_not_winograd(problem, isa).empty()) return ConvForm::direct;
  const double two = winograd_cycles(problem, 2), four = winograd_cycles(problem, 4);
  // Winograd rounds differently from the definition, so it must gain at least 10 %.
  if (std::min(two, four) * 1.1 > direct_cycles(problem)) return ConvForm::direct;
  return two < four ? ConvForm::winograd2 : ConvForm::winograd4;
}

}  // namespace lathe::cpu
