// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/winograd_kernel.h"

namespace lathe::cpu {

const WinogradTable kWinogradAvx512 = kWinogradTable;

}  // namespace lathe::cpu
