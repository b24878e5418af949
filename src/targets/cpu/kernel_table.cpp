// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_table.h"

#include <array>

namespace lathe::cpu {

std::span<const KernelEntry> kernel_table() {
  static const std::array kTable{kAttention,
                                 kAveragePool,
                                 kCachedAttention,
                                 kCast,
                                 kCausalConvWithState,
                                 kConcat,
                                 kConstantOfShape,
                                 kConv,
                                 kConvInteger,
                                 kConvTranspose,
                                 kDequantizeLinear,
                                 kExpand,
                                 kGather,
                                 kGemm,
                                 kGlobalAveragePool,
                                 kGlobalMaxPool,
                                 kGroupQueryAttention,
                                 kGru,
                                 kLayerNormalization,
                                 kLinearAttention,
                                 kLstm,
                                 kMatmul,
                                 kMatmulInteger,
                                 kMatmulNBits,
                                 kMaxPool,
                                 kMultiHeadAttention,
                                 kPad,
                                 kQlinearConv,
                                 kQlinearMatmul,
                                 kQuantizeLinear,
                                 kReduceL1,
                                 kReduceL2,
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
                                 kScatterNd,
                                 kSequenceAttention,
                                 kSequenceConv,
                                 kSequenceLinearAttention,
                                 kSimplifiedLayerNormalization,
                                 kSkipLayerNormalization,
                                 kSkipSimplifiedLayerNormalization,
                                 kSlice,
                                 kSplit,
                                 kSqueeze,
                                 kTileOp,
                                 kTranspose,
                                 kUnsqueeze};
  return kTable;
}

}  // namespace lathe::cpu
