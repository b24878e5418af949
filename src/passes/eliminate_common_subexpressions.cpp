// SPDX-License-Identifier: MIT
#include "passes/eliminate_common_subexpressions.h"

#include <algorithm>
#include <unordered_map>

#include "ir/op.h"
#include "ir/structure.h"

namespace lathe {
namespace {

bool is_pure(const Instruction& instruction) {
  const Op& op = instruction.op();
  const bool constant = op.structural == Structural::literal || op.structural == Structural::dims;
  return (op.structural == Structural::none || constant) && (op.traits & kImpure) == 0 &&
         op.updates.empty();
}

// Messages and profiles name all nodes of the file that an instruction computes.
void add_origins(Instruction& to, const Instruction& from) {
  std::vector<Origin> origins = to.origins();
  origins.insert(origins.end(), from.origins().begin(), from.origins().end());
  to.set_origins(std::move(origins));
}

bool merge_equal(Module& module) {
  std::unordered_multimap<size_t, Instruction*> seen;
  bool changed = false;
  for (auto at = module.instructions().begin(); at != module.instructions().end();) {
    Instruction& instruction = *(at++)->get();
    if (!is_pure(instruction)) continue;
    const size_t hash = structural_hash(instruction);
    const auto [first, last] = seen.equal_range(hash);
    const auto same = std::find_if(
        first, last, [&](const auto& row) { return structurally_equal(*row.second, instruction); });
    if (same == last) {
      seen.emplace(hash, &instruction);
      continue;
    }
    Instruction& kept = *same->second;
    for (int i = 0; i < static_cast<int>(instruction.results().size()); ++i) {
      module.replace_uses(instruction.result(i), kept.result(i));
    }
    if (kept.literal() == nullptr) add_origins(kept, instruction);
    module.erase(&instruction);
    changed = true;
  }
  return changed;
}

}  // namespace

const Pass eliminate_common_subexpressions{
    .name = "eliminate_common_subexpressions",
    .doc = "Merges instructions that compute the same values.",
    .run =
        [](Program& program) {
          bool changed = false;
          for (const auto& module : program.modules()) changed |= merge_equal(*module);
          return changed;
        },
};

}  // namespace lathe
