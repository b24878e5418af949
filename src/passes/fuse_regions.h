// SPDX-License-Identifier: MIT
// Fuses instructions into regions that a target runs as one kernel.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/pass.h"

namespace lathe {

constexpr int kTwin = -1;
constexpr int kGraph = -2;
constexpr int kHalves = -3;

// What a target fuses. All return the reason for a refusal; empty: accepted.
struct FusionRules {
  // A region may begin with `anchor` and go on with `next`, which reads the region's value as
  // operand `operand` and whose result has the type of that value. `anchor` may be a prologue where
  // `next` is what computes it first; then `next` is the anchor of what follows. Behind an anchor
  // of bytes the value is dequantised first and quantised last, and other operands of `next` may be
  // dequantised in the region. Operand kTwin: `next` is a product of the same first operand, which
  // what follows both reads beside the region's value. Operand kGraph: `next` is one of several
  // instructions that read the region's value or each other's results, of any type. Operand
  // kHalves: `next` reads the halves of the columns of `anchor`, each as one operand, in their
  // order.
  std::function<std::string(const Instruction& anchor, const Instruction& next, int operand)>
      epilogue;
  // An instruction may be part of a region of elementwise instructions.
  std::function<std::string(const Instruction& instruction)> elementwise;
  // An instruction over the last axis may be part of a region with elementwise instructions before
  // it and after it.
  std::function<std::string(const Instruction& instruction)> row_op;
};

// One region in place of instructions, each behind what it reads; only the last one's result may be
// read elsewhere, unless the instruction stays.
void make_region(const std::vector<Instruction*>& chain);

// True if the op computes each element of its result from elements of the same index, or broadcast.
bool is_elementwise(const Op& op);
// True if the instruction makes visible how its operand was rounded: a cast of 16-bit floats, whose
// registers are wider. Its operand is then stored, not computed in the same region.
bool reads_rounded(const Instruction& instruction);
// True if anchors may compute the op before their own.
bool is_prologue(const Op& op);

// An anchor takes the instructions that follow it one by one, each the only user of the value
// before, or several up to one that alone is read elsewhere, or one that reads the halves of its
// columns; an anchor of bytes only if they end with bytes. Instructions over the last axis take
// elementwise ones on both sides. The remaining elementwise ones join those that alone read their
// results; a dequantisation is repeated for each of its readers.
Pass fuse_regions(FusionRules rules);

}  // namespace lathe
