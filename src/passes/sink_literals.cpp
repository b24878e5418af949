// SPDX-License-Identifier: MIT
#include "passes/sink_literals.h"

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/ops.h"

namespace lathe {
namespace {

// The literal that a parameter of the body equals in every call; null if there is none. One that
// sessions bind stays an operand.
LiteralRef captured_literal(const Instruction& instruction, int body, int parameter) {
  const int at = instruction.op().capture(instruction, body, parameter);
  const Value* operand = at < 0 ? nullptr : instruction.operands()[static_cast<size_t>(at)];
  if (operand == nullptr || operand->definition() == nullptr) return nullptr;
  const LiteralRef& literal = operand->definition()->literal();
  return literal == nullptr || literal->bindable ? nullptr : literal;
}

bool sink(Module& module) {
  bool changed = false;
  for (const auto& instruction : module.instructions()) {
    if (instruction->op().capture == nullptr || instruction->op() == ops::region) continue;
    for (int i = 0; i < static_cast<int>(instruction->bodies().size()); ++i) {
      Module& body = *instruction->bodies()[static_cast<size_t>(i)];
      for (const auto& parameter : body.parameters()) {
        if (parameter->uses().empty()) continue;
        const LiteralRef literal = captured_literal(*instruction, i, parameter->index());
        if (literal == nullptr) continue;
        Instruction* first =
            body.instructions().empty() ? nullptr : body.instructions().front().get();
        Value* own = Builder(body, first).literal(literal, parameter->name());
        body.replace_uses(parameter.get(), own);
        infer_users(*own);
        changed = true;
      }
      changed |= sink(body);
    }
  }
  return changed;
}

}  // namespace

const Pass sink_literals{
    .name = "sink_literals",
    .doc = "Replaces literals that bodies of control flow capture by literals of the body.",
    .run = [](Program& program) { return sink(program.main()); },
};

}  // namespace lathe
