// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/convolution.h"

#include "base/error.h"
#include "targets/cpu/kernels/conv_direct.h"
#include "targets/cpu/kernels/depthwise.h"

namespace lathe::cpu {

std::string_view to_string(ConvForm form) {
  constexpr std::array<std::string_view, kConvFormCount> kNames = {"depthwise", "direct",
                                                                   "winograd2", "winograd4"};
  return kNames[static_cast<size_t>(form)];
}

std::string why_not(ConvForm form, const ConvProblem& problem, Isa isa) {
  switch (form) {
    case ConvForm::depthwise:
      return why_not_depthwise(problem, isa);
    case ConvForm::direct:
      return why_not_direct(problem, isa);
    default:
      return "";
  }
}

std::unique_ptr<Convolution> make_convolution(ConvForm form, const ConvProblem& problem, Isa isa) {
  const std::string reason = why_not(form, problem, isa);
  check(reason.empty(), ErrorKind::unsupported, "convolution {} as {}: {}", problem.text(),
        to_string(form), reason);
  switch (form) {
    case ConvForm::depthwise:
      return std::make_unique<DepthwiseConvolution>(problem, isa);
    default:
      return std::make_unique<DirectConvolution>(problem, isa);
  }
}

ConvForm choose_form(const ConvProblem& problem, Isa isa) {
  if (why_not(ConvForm::depthwise, problem, isa).empty()) return ConvForm::depthwise;
  return ConvForm::direct;
}

}  // namespace lathe::cpu
