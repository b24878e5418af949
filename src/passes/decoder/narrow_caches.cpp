// SPDX-License-Identifier: MIT
#include "passes/decoder/narrow_caches.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/state_chain.h"
#include "ops/support/sequence_attention.h"

namespace lathe {
namespace {

constexpr SequenceAttentionOperands kOperands = sequence_attention_operands(true);

bool is_wide_cache(const State& state) {
  return state.paged && (state.kind == StateKind::append || state.kind == StateKind::window) &&
         state.type.element == ElementType::f32;
}

bool is_read_by_attention(const Value& version) {
  return std::ranges::all_of(version.uses(), [](const Use& use) {
    return use.user != nullptr && use.user->op() == ops::sequence_attention &&
           (use.index == kOperands.key_cache || use.index == kOperands.value_cache);
  });
}

void read(Instruction& old) {
  Builder b(*old.module(), &old);
  b.set_origins(old.origins());
  const Instruction* fresh = b.add(ops::state_read, {}, old.attributes());
  old.module()->replace_uses(old.result(), const_cast<Value*>(fresh->result()));
}

void attend(Instruction& old, ElementType to) {
  Module& module = *old.module();
  Builder b(module, &old);
  b.set_origins(old.origins());
  std::vector<Value*> operands = old.operands();
  for (const int i : {kOperands.query, kOperands.key, kOperands.value}) {
    Value*& operand = operands[static_cast<size_t>(i)];
    if (operand != nullptr) operand = b.cast(operand, to);
  }
  Instruction* fresh = b.add(old.op(), operands, old.attributes(), {}, 3);
  module.replace_uses(old.result(), b.cast(fresh->result(), ElementType::f32));
  for (const int version : {1, 2}) module.replace_uses(old.result(version), fresh->result(version));
}

}  // namespace

bool has_wide_caches(const Program& program) {
  bool any = false;
  for (const auto& instruction : program.main().instructions()) {
    const bool attends = instruction->op() == ops::sequence_attention;
    if (attends && !(instruction->operands()[0]->type().element == ElementType::f32)) return false;
    any = any || attends;
    for (const Value& result : instruction->results()) {
      const State* state = program.find_state(state_name_of(&result));
      if (state == nullptr) continue;
      const bool known = attends || instruction->op() == ops::state_read;
      if (!known || !is_wide_cache(*state) || !is_read_by_attention(result)) return false;
    }
  }
  return any;
}

void narrow_caches(Program& program, ElementType to) {
  for (State& state : program.states()) {
    if (is_wide_cache(state)) state.type.element = to;
  }
  std::vector<Instruction*> replaced;
  Module& module = program.main();
  for (auto at = module.instructions().begin(); at != module.instructions().end();) {
    Instruction& instruction = **at++;
    const bool reads = instruction.op() == ops::state_read;
    if (!reads && !(instruction.op() == ops::sequence_attention)) continue;
    if (reads) {
      read(instruction);
    } else {
      attend(instruction, to);
    }
    replaced.push_back(&instruction);
  }
  for (auto at = replaced.rbegin(); at != replaced.rend(); ++at) module.erase(*at);
}

}  // namespace lathe
