// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/simd/isa.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace lathe::cpu {
namespace {

constexpr std::array<std::string_view, kIsaCount> kNames{"avx2",        "avx2_vnni",   "avx512",
                                                         "avx512_vnni", "avx512_bf16", "amx"};

std::optional<Isa> limit_from_environment() {
  std::vector<std::string> warnings;
  const Options options = Options::from_environment(warnings);
  const std::string& name = options.text("cpu-isa");
  if (name == "auto") return std::nullopt;
  const std::optional<Isa> isa = isa_from_name(name);
  check(isa.has_value(), ErrorKind::invalid_argument,
        "{} is '{}', expected auto, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16 or amx",
        options.origin("cpu-isa"), escape(name));
  return isa;
}

constexpr int kNoLimit = kIsaCount - 1;
std::atomic<int>& limit() {
  static std::atomic<int> value{
      static_cast<int>(limit_from_environment().value_or(static_cast<Isa>(kNoLimit)))};
  return value;
}

}  // namespace

std::string_view to_string(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

std::optional<Isa> isa_from_name(std::string_view name) {
  for (int i = 0; i < kIsaCount; ++i) {
    if (kNames[static_cast<size_t>(i)] == name) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

std::optional<Isa> build_isa() { return isa_from_name(LATHE_ISA); }

std::string not_in_build(Isa isa) {
  const std::optional<Isa> built = build_isa();
  if (!built || isa == *built) return "";
  return fmt::format("kernels for {} are not in this build (LATHE_ISA={})", to_string(isa),
                     to_string(*built));
}

void fail_not_in_build(Isa isa) { fail(ErrorKind::unsupported, "{}", not_in_build(isa)); }

std::optional<Isa> best_isa() {
  const Isa built = build_isa().value_or(static_cast<Isa>(kNoLimit));
  for (int i = std::min(limit().load(), static_cast<int>(built)); i >= 0; --i) {
    if (host_supports(static_cast<Isa>(i))) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

void limit_isa(std::optional<Isa> isa) {
  limit() = static_cast<int>(isa.value_or(static_cast<Isa>(kNoLimit)));
}

}  // namespace lathe::cpu
