// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_table.h"

#include <array>

namespace lathe::cpu {

std::span<const KernelEntry> kernel_table() {
  static const std::array kTable{
      kAttention,           kConv,         kConvInteger,   kConvTranspose, kGemm,
      kGroupQueryAttention, kMatmul,       kMatmulInteger, kMatmulNBits,   kMultiHeadAttention,
      kQlinearConv,         kQlinearMatmul};
  return kTable;
}

}  // namespace lathe::cpu
