// SPDX-License-Identifier: MIT
// Processor features. CMake compiles this file by itself too, for LATHE_ISA=host.
#include <cpuid.h>

#include <array>
#include <initializer_list>

#include "base/os_processor.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool is_amd() {
  constexpr uint32_t kAuth = 0x68747541;  // "Auth" of "AuthenticAMD"
  return cpuid(0, 0).b == kAuth;
}

bool has(uint32_t bits, std::initializer_list<int> positions) {
  for (const int bit : positions) {
    if ((bits >> bit & 1) == 0) return false;
  }
  return true;
}

// Register states that the operating system saves (XCR0).
uint32_t saved_states() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

uint32_t detect() {
  const Registers basic = cpuid(1, 0), more = cpuid(7, 0), last = cpuid(7, 1);
  if (!has(basic.c, {12, 27, 28, 29})) return 0;  // FMA, OSXSAVE, AVX, F16C
  const uint32_t states = saved_states();
  const bool avx2 = has(states, {1, 2}) && has(more.b, {3, 5, 8});  // BMI1, AVX2, BMI2
  const bool avx512 = avx2 && has(states, {5, 6, 7}) && has(more.b, {16, 17, 28, 30, 31});
  const bool vnni = avx512 && has(more.c, {11});
  const bool bf16 = vnni && has(last.a, {5});
  const bool amx = bf16 && has(more.c, {1}) && has(states, {17, 18}) &&
                   has(more.d, {22, 24, 25}) &&  // VBMI; AMX-BF16, -TILE, -INT8
                   request_tile_registers();
  const std::array<bool, kIsaCount> found{avx2, avx2 && has(last.a, {4}), avx512, vnni, bf16, amx};
  uint32_t out = 0;
  for (size_t i = 0; i < found.size(); ++i) out |= (found[i] ? 1u : 0u) << i;
  return out;
}

}  // namespace

bool host_supports(Isa isa) {
  static const uint32_t found = detect();
  return (found >> static_cast<int>(isa) & 1) != 0;
}

// True on AMD (measured on Zen 4). Emerald Rapids needs software prefetch.
bool host_prefers_hardware_prefetch() {
  static const bool does = is_amd();
  return does;
}

}  // namespace lathe::cpu
