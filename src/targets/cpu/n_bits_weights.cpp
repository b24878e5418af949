// SPDX-License-Identifier: MIT
#include "targets/cpu/n_bits_weights.h"

#include "targets/cpu/column_source.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kX, kB, kScales, kZeros, kGroups };

}  // namespace

WeightOnlyProblem n_bits_problem(const Instruction& user) {
  WeightOnlyProblem p;
  p.k = attribute<int64_t>(user, "k");
  p.n = attribute<int64_t>(user, "n");
  p.bits = static_cast<int>(attribute<int64_t>(user, "bits"));
  p.block = attribute<int64_t>(user, "block_size");
  p.scale_type = element_of(user, kScales);
  if (has_operand(user, kZeros)) p.zero_type = element_of(user, kZeros);
  return p;
}

std::shared_ptr<const PackedWeights> packed_n_bits(const WeightOnlyProblem& problem,
                                                   const WeightOnlyLayout& layout,
                                                   Constants constants,
                                                   std::span<const int32_t> groups) {
  const Tensor* zeros = constant_at(constants, kZeros);
  const WeightOnlySource source{constants[kB]->as<uint8_t>(), constants[kScales]->data(),
                                zeros == nullptr ? nullptr : zeros->data(), groups};
  const Tensor* sources[] = {constants[kB], constants[kScales], zeros,
                             problem.grouped ? constants[kGroups] : nullptr};
  return packed_weights(
      sources, weight_only_packing_id(problem), static_cast<size_t>(layout.bytes),
      [&](void* to, ThreadPool* pool) { pack_weight_only(problem, layout, source, to, pool); });
}

std::string why_not_packed(const Instruction& user, Constants constants) {
  if (constants[kB] == nullptr && source_of_columns(user) != nullptr) return "";
  for (size_t i = kB; i < user.operands().size(); ++i) {
    if (has_operand(user, i) && constant_at(constants, i) == nullptr) {
      return fmt::format("operand '{}' is not constant", user.op().operands[i].name);
    }
  }
  return "";
}

}  // namespace lathe::cpu
