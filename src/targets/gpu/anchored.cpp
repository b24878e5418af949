// SPDX-License-Identifier: MIT
// The kernels of anchors, and of regions, which begin with one or are elementwise.
#include "ir/ops.h"
#include "targets/gpu/anchor.h"

namespace lathe::gpu {
namespace {

std::string why_no_region(const Instruction& region) {
  const std::string reason = why_no_anchored_region(region);
  return reason.empty() ? "" : why_no_elementwise_region(region);
}

}  // namespace

KernelChoice make_anchored(const GpuDevice& device, const Instruction& instruction,
                           Constants constants) {
  const Op& op = Anchor(instruction).anchor().op();
  const auto make = op == ops::conv            ? make_conv
                    : op == ops::matmul_n_bits ? make_n_bits
                                               : make_gemm;
  return {make(device, instruction, constants), ""};
}

extern const KernelEntry kAnchors[];
extern const size_t kAnchorCount;
const KernelEntry kAnchors[] = {
    {ops::matmul, why_no_gemm, make_anchored},
    {ops::gemm, why_no_gemm, make_anchored},
    {ops::conv, why_no_conv, make_anchored},
};
const size_t kAnchorCount = std::size(kAnchors);

extern const KernelEntry kElementwise;
extern const KernelEntry kRegion;
const KernelEntry kRegion{
    ops::region, why_no_region,
    [](const GpuDevice& device, const Instruction& region, Constants constants) {
      return why_no_anchored_region(region).empty() ? make_anchored(device, region, constants)
                                                    : kElementwise.make(device, region, constants);
    }};

}  // namespace lathe::gpu
