// SPDX-License-Identifier: MIT
#include "passes/turn_weights.h"

#include <algorithm>
#include <optional>

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

bool turn(Instruction& product) {
  constexpr int64_t kLarge = 1 << 18;  // others are read in no time
  if (!(product.op() == ops::matmul) || product.deferred()) return false;
  Value* weights = product.operands()[1];
  if (!is_constant(*weights) || weights->type().rank() != 2 ||
      defined_by(*weights, ops::transpose) != nullptr) {
    return false;
  }
  const auto& dims = *weights->type().dims;
  const std::optional<int64_t> depth = dims[0].constant();
  const std::optional<int64_t> columns = dims[1].constant();
  if (!depth || !columns || *depth * *columns < kLarge) return false;
  Builder b(*product.module(), &product);
  b.set_origins(product.origins());
  for (int i = 0; i < 2; ++i) {
    weights = b.transpose(weights, {1, 0});
    weights->definition()->set_deferred(true);
  }
  product.set_operand(1, weights);
  return true;
}

// A decoder, whose caches are states, or inputs and results.
bool decodes(const Program& program) {
  return !program.states().empty() ||
         std::ranges::any_of(program.main().instructions(), [](const auto& instruction) {
           return instruction->op() == ops::group_query_attention;
         });
}

bool turn_all(Program& program) {
  if (!decodes(program)) return false;
  bool changed = false;
  for (const auto& module : program.modules()) {
    for (auto at = module->instructions().begin(); at != module->instructions().end();) {
      changed |= turn(**at++);
    }
  }
  return changed;
}

}  // namespace

const Pass turn_weights{
    .name = "turn_weights",
    .doc = "Lays weights of decoders' products along the depth.",
    .run = turn_all,
};

}  // namespace lathe
