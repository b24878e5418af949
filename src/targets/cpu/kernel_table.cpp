// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_table.h"

#include <array>

namespace lathe::cpu {

std::span<const KernelEntry> kernel_table() {
  static const std::array kTable{kAdd,
                                 kAttention,
                                 kAveragePool,
                                 kCausalConvWithState,
                                 kConv,
                                 kConvInteger,
                                 kConvTranspose,
                                 kGelu,
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
                                 kMul,
                                 kMultiHeadAttention,
                                 kQlinearConv,
                                 kQlinearMatmul,
                                 kRelu,
                                 kRmsNormalization,
                                 kRnn,
                                 kSequenceAttention,
                                 kSequenceConv,
                                 kSequenceLinearAttention,
                                 kSigmoid,
                                 kSimplifiedLayerNormalization,
                                 kSkipLayerNormalization,
                                 kSkipSimplifiedLayerNormalization,
                                 kSub,
                                 kSwiglu,
                                 kSwish,
                                 kTanh};
  return kTable;
}

}  // namespace lathe::cpu
