// SPDX-License-Identifier: MIT
// Ops whose evaluation is parallel and as fast as a kernel: it is their kernel, too.
#include "ir/ops.h"
#include "targets/cpu/kernel_table.h"

namespace lathe::cpu {
namespace {

std::string why_not(const Instruction& /*instruction*/, Isa /*isa*/) { return ""; }

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa /*isa*/) {
  return make_reference_kernel(instruction, "cpu");
}

}  // namespace

const KernelEntry kArgMax{ops::arg_max, why_not, make};
const KernelEntry kArgMin{ops::arg_min, why_not, make};
const KernelEntry kCumprod{ops::cumprod, why_not, make};
const KernelEntry kCumsum{ops::cumsum, why_not, make};
const KernelEntry kGatherBlockQuantized{ops::gather_block_quantized, why_not, make};
const KernelEntry kGridSample{ops::grid_sample, why_not, make};
const KernelEntry kMrotaryEmbedding{ops::mrotary_embedding, why_not, make};
const KernelEntry kNonMaxSuppression{ops::non_max_suppression, why_not, make};
const KernelEntry kRoiAlign{ops::roi_align, why_not, make};
const KernelEntry kStft{ops::stft, why_not, make};
const KernelEntry kTopK{ops::top_k, why_not, make};
const KernelEntry kTreeEnsemble{ops::tree_ensemble, why_not, make};

}  // namespace lathe::cpu
