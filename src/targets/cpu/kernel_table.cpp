// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_table.h"

#include <array>

namespace lathe::cpu {

std::span<const KernelEntry> kernel_table() {
  static const std::array kTable{kAttention,
                                 kAveragePool,
                                 kConv,
                                 kConvInteger,
                                 kConvTranspose,
                                 kGemm,
                                 kGlobalAveragePool,
                                 kGlobalMaxPool,
                                 kGroupQueryAttention,
                                 kGru,
                                 kLstm,
                                 kMatmul,
                                 kMatmulInteger,
                                 kMatmulNBits,
                                 kMaxPool,
                                 kMultiHeadAttention,
                                 kQlinearConv,
                                 kQlinearMatmul,
                                 kRnn};
  return kTable;
}

}  // namespace lathe::cpu
