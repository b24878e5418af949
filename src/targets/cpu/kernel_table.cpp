// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_table.h"

#include <array>

namespace lathe::cpu {

std::span<const KernelEntry> kernel_table() {
  static const std::array kTable{kAttention,
                                 kAveragePool,
                                 kCausalConvWithState,
                                 kConv,
                                 kConvInteger,
                                 kConvTranspose,
                                 kDequantizeLinear,
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
                                 kQlinearConv,
                                 kQlinearMatmul,
                                 kQuantizeLinear,
                                 kRegion,
                                 kResize,
                                 kRmsNormalization,
                                 kRnn,
                                 kSequenceAttention,
                                 kSequenceConv,
                                 kSequenceLinearAttention,
                                 kSimplifiedLayerNormalization,
                                 kSkipLayerNormalization,
                                 kSkipSimplifiedLayerNormalization};
  return kTable;
}

}  // namespace lathe::cpu
