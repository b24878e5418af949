// SPDX-License-Identifier: MIT
// Ops that only move or count elements. Their evaluations copy whole tensors, slices and rows, on
// several threads if they are large (tensor/copy.h), so that no other kernel of theirs would be
// faster. Rows of a table that a GEMM packs are read from its panels.
#include "ir/ops.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/lookup.h"

namespace lathe::cpu {
namespace {

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const Type& type = instruction.result()->type();
  if (type.is_boxed()) return "its result is a sequence, an optional or a string tensor";
  return info(type.element).bits >= 8
             ? ""
             : fmt::format("{} has elements below 8 bits", to_string(type.element));
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa /*isa*/) {
  return make_reference_kernel(instruction, "cpu");
}

KernelChoice make_gather(const Instruction& instruction, Constants constants, Isa isa) {
  if (auto lookup = make_panel_lookup(instruction, isa)) return {std::move(lookup), ""};
  return make(instruction, constants, isa);
}

}  // namespace

const KernelEntry kConcat{ops::concat, why_not, make};
const KernelEntry kConstantOfShape{ops::constant_of_shape, why_not, make};
const KernelEntry kExpand{ops::expand, why_not, make};
const KernelEntry kGather{ops::gather, why_not, make_gather};
const KernelEntry kGatherElements{ops::gather_elements, why_not, make};
const KernelEntry kGatherNd{ops::gather_nd, why_not, make};
const KernelEntry kPad{ops::pad, why_not, make};
const KernelEntry kRange{ops::range, why_not, make};
const KernelEntry kReshape{ops::reshape, why_not, make};
const KernelEntry kSlice{ops::slice, why_not, make};
const KernelEntry kSplit{ops::split, why_not, make};
const KernelEntry kSqueeze{ops::squeeze, why_not, make};
const KernelEntry kTileOp{ops::tile, why_not, make};
const KernelEntry kTranspose{ops::transpose, why_not, make};
const KernelEntry kUnsqueeze{ops::unsqueeze, why_not, make};

}  // namespace lathe::cpu
