// SPDX-License-Identifier: MIT
// Instruction sets that the kernels are built for, and detection of those that the host supports.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lathe::cpu {

// In rising order of preference. A name includes every extension that its units are compiled with.
enum class Isa : uint8_t {
  avx2,         // AVX2, FMA, F16C
  avx2_vnni,    // and AVX-VNNI
  avx512,       // AVX-512 F, BW, CD, DQ, VL
  avx512_vnni,  // and VNNI, BF16
  amx,          // and AMX tiles for int8 and bf16
};
inline constexpr int kIsaCount = 5;

std::string_view to_string(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// True if the processor and the operating system support it. For AMX, requests permission for tile
// data.
bool host_supports(Isa isa);

// True if the hardware prefetcher covers sequential loads better than software prefetch does.
bool host_prefers_hardware_prefetch();

// The best instruction set that the host supports, at most the limit; none without AVX2. The limit
// starts from LATHE_CPU_ISA; InvalidArgument if that is not a known name.
std::optional<Isa> best_isa();
void limit_isa(std::optional<Isa> limit);  // none: no limit; for options and tests

}  // namespace lathe::cpu
