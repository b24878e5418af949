// SPDX-License-Identifier: MIT
// Fits of src/ops/math/coefficients.h, made by scripts/fit_polynomials.py; a test compares them.
// Lowest power first.
#pragma once

namespace lathe::cpu::fits {

constexpr float kLn2[] = {0x1.62e4p-1F, 0x1.7f7d1cp-20F};
constexpr float kLog2E = static_cast<float>(1 / (0x1.62e4p-1 + 0x1.7f7d1cp-20));
constexpr float kExp[] = {0x1p-1F,        0x1.555556p-3F,  0x1.5554bp-5F,
                          0x1.111094p-7F, 0x1.6d729cp-10F, 0x1.a19c94p-13F};
constexpr float kErf[] = {0x1.06eba8p-3F, -0x1.81273ep-2F,  0x1.ce2cf8p-4F, -0x1.b7f90ep-6F,
                          0x1.5405bp-8F,  -0x1.a3f6eep-11F, 0x1.4969eap-14F};
constexpr float kLogErfc[] = {0x1.8a53f4p-13F, -0x1.212c0cp+0F, -0x1.443568p-1F, -0x1.bc1506p-4F,
                              0x1.9d02dep-6F,  -0x1.138c86p-8F, 0x1.cec556p-12F, -0x1.6bd704p-16F};
constexpr float kExp2[] = {0x1.62e432p-1F, 0x1.ebf9bp-3F, 0x1.c6ae66p-5F, 0x1.3cee62p-7F,
                           0x1.5f771ap-10F};
constexpr float kLogNormalTail[] = {-0x1p+0F,         -0x1.26aedep+0F, -0x1.d639dp-2F,
                                    -0x1.ae1f0ep-5F,  0x1.cfb336p-8F,  -0x1.31f9a2p-13F,
                                    -0x1.7ecc0ep-13F, 0x1.43f0e4p-15F, -0x1.7401aep-19F};

}  // namespace lathe::cpu::fits
