// SPDX-License-Identifier: MIT
// Constant weights of matmul_n_bits and gather_n_bits, packed at planning.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "plan/kernel.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "targets/cpu/weight_store.h"

namespace lathe::cpu {

// Sizes and types of the weights.
WeightOnlyProblem n_bits_problem(const Instruction& user);
// Packs codes, scales and zero points; `groups`: of each element along k, if the problem has them.
std::shared_ptr<const PackedWeights> packed_n_bits(const WeightOnlyProblem& problem,
                                                   const WeightOnlyLayout& layout,
                                                   Constants constants,
                                                   std::span<const int32_t> groups = {});
// Why a kernel cannot pack them; empty if it can, also from what a quantize_blocks reads.
std::string why_not_packed(const Instruction& user, Constants constants);

template <class K>
KernelChoice make_n_bits(const Instruction& user, Constants constants, Isa isa) {
  std::string reason = why_not_packed(user, constants);
  if (!reason.empty()) return {nullptr, std::move(reason)};
  return {std::make_unique<K>(user, constants, isa), ""};
}

}  // namespace lathe::cpu
