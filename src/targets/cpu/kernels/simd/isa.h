// SPDX-License-Identifier: MIT
// The instruction sets that kernels are built for, and which of them this machine runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lathe::cpu {

// In rising order of preference; a name stands for all that its units are compiled with.
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

// Processor and operating system both; for AMX this asks the system for the tile registers.
bool host_supports(Isa isa);

// Whether the processor fetches further ahead along a stream of loads than it can be told to by
// prefetches.
bool host_fetches_along_loads();

// The best one that the host supports, at most the limit; none on a processor without AVX2. The
// limit starts from LATHE_CPU_ISA; InvalidArgument if that names no instruction set.
std::optional<Isa> best_isa();
void limit_isa(std::optional<Isa> limit);  // none: no limit; for options and tests

}  // namespace lathe::cpu
