// SPDX-License-Identifier: MIT
// Ops with kernels on the CPU.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

struct KernelEntry {
  const Op& op;
  // Reason why no kernel supports the instruction for any operand values; empty if one does.
  // Lowering then keeps a composite, so `make` must return a kernel.
  std::string (*why_not)(const Instruction& instruction, Isa isa);
  KernelChoice (*make)(const Instruction& instruction, Constants constants, Isa isa);
};
std::span<const KernelEntry> kernel_table();
// Null if there is no kernel for the op.
const KernelEntry* find_entry(const Op& op);

// Elementwise ops that are not in the table; its `op` means nothing.
extern const KernelEntry kElementwise;

// One file per group.
extern const KernelEntry kArgMax;
extern const KernelEntry kArgMin;
extern const KernelEntry kAttention;
extern const KernelEntry kAveragePool;
extern const KernelEntry kCachedAttention;
extern const KernelEntry kCast;
extern const KernelEntry kCausalConvWithState;
extern const KernelEntry kChooseTokens;
extern const KernelEntry kConcat;
extern const KernelEntry kConstantOfShape;
extern const KernelEntry kConv;
extern const KernelEntry kConvInteger;
extern const KernelEntry kConvTranspose;
extern const KernelEntry kCumprod;
extern const KernelEntry kCumsum;
extern const KernelEntry kDequantizeLinear;
extern const KernelEntry kExpand;
extern const KernelEntry kGather;
extern const KernelEntry kGatherBlockQuantized;
extern const KernelEntry kGatherElements;
extern const KernelEntry kGatherNBits;
extern const KernelEntry kGatherNd;
extern const KernelEntry kGemm;
extern const KernelEntry kGlobalAveragePool;
extern const KernelEntry kGlobalMaxPool;
extern const KernelEntry kGridSample;
extern const KernelEntry kGroupQueryAttention;
extern const KernelEntry kGru;
extern const KernelEntry kLayerNormalization;
extern const KernelEntry kLinearAttention;
extern const KernelEntry kLogSoftmax;
extern const KernelEntry kLstm;
extern const KernelEntry kMatmul;
extern const KernelEntry kMatmulInteger;
extern const KernelEntry kMatmulNBits;
extern const KernelEntry kMaxPool;
extern const KernelEntry kMoe;
extern const KernelEntry kMrotaryEmbedding;
extern const KernelEntry kMultiHeadAttention;
extern const KernelEntry kNonMaxSuppression;
extern const KernelEntry kPackedAttention;
extern const KernelEntry kPad;
extern const KernelEntry kQlinearConv;
extern const KernelEntry kQlinearMatmul;
extern const KernelEntry kQmoe;
extern const KernelEntry kQuantizeLinear;
extern const KernelEntry kRange;
extern const KernelEntry kReduceL1;
extern const KernelEntry kReduceL2;
extern const KernelEntry kReduceLogSum;
extern const KernelEntry kReduceMax;
extern const KernelEntry kReduceMean;
extern const KernelEntry kReduceMin;
extern const KernelEntry kReduceSum;
extern const KernelEntry kReduceSumSquare;
extern const KernelEntry kRegion;
extern const KernelEntry kReshape;
extern const KernelEntry kResize;
extern const KernelEntry kRmsNormalization;
extern const KernelEntry kRnn;
extern const KernelEntry kRoiAlign;
extern const KernelEntry kRotaryEmbedding;
extern const KernelEntry kScatterNd;
extern const KernelEntry kSequenceAttention;
extern const KernelEntry kSequenceConv;
extern const KernelEntry kSequenceLinearAttention;
extern const KernelEntry kSimplifiedLayerNormalization;
extern const KernelEntry kSkipLayerNormalization;
extern const KernelEntry kSkipSimplifiedLayerNormalization;
extern const KernelEntry kSlice;
extern const KernelEntry kSoftmax;
extern const KernelEntry kSplit;
extern const KernelEntry kSqueeze;
extern const KernelEntry kStft;
extern const KernelEntry kTileOp;
extern const KernelEntry kTopK;
extern const KernelEntry kTranspose;
extern const KernelEntry kTreeEnsemble;
extern const KernelEntry kUnsqueeze;

}  // namespace lathe::cpu
