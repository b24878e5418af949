// SPDX-License-Identifier: MIT
// Instruction sets that the kernels are built for, and detection of those that the host supports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::cpu {

// In rising order of preference. A name includes every extension that its units are compiled with.
enum class Isa : uint8_t {
  avx2,         // AVX2, FMA, F16C
  avx2_vnni,    // and AVX-VNNI
  avx512,       // AVX-512 F, BW, CD, DQ, VL
  avx512_vnni,  // and VNNI
  avx512_bf16,  // and BF16
  amx,          // and AMX tiles for int8 and bf16
};
inline constexpr int kIsaCount = 6;

std::string_view to_string(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// The only instruction set of this build (LATHE_ISA); none if the build has all kernels.
std::optional<Isa> build_isa();

// Empty, or the reason why this build has no kernels for `isa`.
std::string not_in_build(Isa isa);

// Returns the unit. Callers declare units weak: one that the build leaves out is null, which is
// Unsupported.
[[noreturn]] void fail_not_in_build(Isa isa);
template <class Unit>
Unit* in_build(Unit* unit, Isa isa) {
  if (unit == nullptr) fail_not_in_build(isa);
  return unit;
}

// True if the processor and the operating system support it. For AMX, requests permission for tile
// data.
bool host_supports(Isa isa);

// True if the hardware prefetcher covers sequential loads better than software prefetch does.
bool host_prefers_hardware_prefetch();

// The best set that the host supports, at most the limit and the build's set; none without AVX2. A
// limit below the build's set selects one without kernels (not_in_build). The limit starts from
// LATHE_CPU_ISA; InvalidArgument if that is not a known name.
std::optional<Isa> best_isa();
void limit_isa(std::optional<Isa> limit);  // none: no limit; for options and tests

}  // namespace lathe::cpu
