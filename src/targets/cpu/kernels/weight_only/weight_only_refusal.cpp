// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "targets/cpu/kernels/weight_only/weight_only_rows.h"

namespace lathe::cpu {
namespace {

bool is_float(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

}  // namespace

std::string weight_only_refusal(const WeightOnlyProblem& p) {
  if (p.k <= 0 || p.n <= 0)
    return fmt::format("k = {} and n = {}, expected positive sizes", p.k, p.n);
  if (p.bits != 2 && p.bits != 3 && p.bits != 4 && p.bits != 8) {
    return fmt::format("{}-bit weights, supported: 2, 3, 4, 8", p.bits);
  }
  if (p.block < 16 || p.block > 256 || (p.block & (p.block - 1)) != 0) {
    return fmt::format("block size {}, supported: 16, 32, 64, 128, 256", p.block);
  }
  for (const ElementType type : {p.a_type, p.y_type, p.scale_type}) {
    if (!is_float(type))
      return fmt::format("element type {}, expected f32, f16 or bf16", to_string(type));
  }
  if (p.zero_type && *p.zero_type != ElementType::u8 && !is_float(*p.zero_type)) {
    return fmt::format("zero points in {}, supported: u8, f32, f16, bf16", to_string(*p.zero_type));
  }
  if (p.compact) {
    const bool known = std::ranges::find(kCompactForms, *p.compact) != kCompactForms.end();
    const bool plain = known && p.bits == plain_bits(*p.compact) && p.block == p.compact->block &&
                       p.compact->minimums == has_float_zeros(p) && !p.grouped;
    if (!plain) return fmt::format("a compact form of {} bits", p.compact->bits);
    if (p.compact->byte_scales && p.k % 256 != 0) {
      return fmt::format("k = {}, expected a multiple of 256 for byte scales", p.k);
    }
  }
  if (p.swiglu && (p.y_type != ElementType::f32 || p.n % (2 * kPanel) != 0)) {
    return fmt::format("swiglu of {} columns in {}, supported: multiples of {} in f32", p.n,
                       to_string(p.y_type), 2 * kPanel);
  }
  if (p.compute == WeightOnlyCompute::int8) {
    if (p.grouped) return fmt::format("int8 activations do not support g_idx (k = {})", p.k);
  }
  return {};
}

}  // namespace lathe::cpu
