// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_table.h"

#include <algorithm>
#include <array>

#include "passes/fuse_regions.h"

namespace lathe::cpu {

std::span<const KernelEntry> kernel_table() {
  static const std::array kTable{kArgMax,
                                 kArgMin,
                                 kAttention,
                                 kAveragePool,
                                 kCachedAttention,
                                 kCast,
                                 kCausalConvWithState,
                                 kChooseTokens,
                                 kConcat,
                                 kConstantOfShape,
                                 kConv,
                                 kConvInteger,
                                 kConvTranspose,
                                 kCumprod,
                                 kCumsum,
                                 kDequantizeLinear,
                                 kExpand,
                                 kGather,
                                 kGatherBlockQuantized,
                                 kGatherElements,
                                 kGatherNBits,
                                 kGatherNd,
                                 kGemm,
                                 kGlobalAveragePool,
                                 kGlobalMaxPool,
                                 kGridSample,
                                 kGroupQueryAttention,
                                 kGru,
                                 kLayerNormalization,
                                 kLinearAttention,
                                 kLogSoftmax,
                                 kLstm,
                                 kMatmul,
                                 kMatmulInteger,
                                 kMatmulNBits,
                                 kMaxPool,
                                 kMoe,
                                 kMrotaryEmbedding,
                                 kMultiHeadAttention,
                                 kNonMaxSuppression,
                                 kPackedAttention,
                                 kPad,
                                 kQlinearConv,
                                 kQlinearMatmul,
                                 kQmoe,
                                 kQuantizeLinear,
                                 kRange,
                                 kReduceL1,
                                 kReduceL2,
                                 kReduceLogSum,
                                 kReduceMax,
                                 kReduceMean,
                                 kReduceMin,
                                 kReduceSum,
                                 kReduceSumSquare,
                                 kRegion,
                                 kReshape,
                                 kResize,
                                 kRmsNormalization,
                                 kRnn,
                                 kRoiAlign,
                                 kRotaryEmbedding,
                                 kScatterNd,
                                 kSequenceAttention,
                                 kSequenceConv,
                                 kSequenceLinearAttention,
                                 kSimplifiedLayerNormalization,
                                 kSkipLayerNormalization,
                                 kSkipSimplifiedLayerNormalization,
                                 kSlice,
                                 kSoftmax,
                                 kSplit,
                                 kSqueeze,
                                 kStft,
                                 kTileOp,
                                 kTopK,
                                 kTranspose,
                                 kTreeEnsemble,
                                 kUnsqueeze};
  return kTable;
}

const KernelEntry* find_entry(const Op& op) {
  const auto table = kernel_table();
  const auto at = std::ranges::find_if(table, [&](const KernelEntry& e) { return e.op == op; });
  if (at != table.end()) return &*at;
  return is_elementwise(op) ? &kElementwise : nullptr;
}

}  // namespace lathe::cpu
