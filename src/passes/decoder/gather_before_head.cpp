// SPDX-License-Identifier: MIT
#include "passes/decoder/gather_before_head.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {
namespace {

int index_of(const Module& main, const Value* result) {
  const auto& results = main.results();
  return static_cast<int>(std::ranges::find(results, result) - results.begin());
}

}  // namespace

std::string gather_before_head(Program& program, Value* logits, const TokenAxes& flow,
                               const Dim& extent) {
  Module& main = program.main();
  Value* cut = logits;
  Value* at = logits;
  const Instruction* reader = nullptr;  // reader of `at`; null: results of main
  while (Instruction* definition = at->definition()) {
    if (is_any_of(definition->op(), {&ops::cached_attention, &ops::sequence_attention,
                                     &ops::sequence_conv, &ops::sequence_linear_attention})) {
      break;
    }
    // A value with another reader, or that is another result, keeps all tokens.
    if (!std::ranges::all_of(at->uses(), [&](const auto& use) { return use.user == reader; }))
      break;
    reader = definition;
    Value* only = nullptr;
    int count = 0;
    for (Value* operand : definition->operands()) {
      if (operand == nullptr || !flow.axes.contains(operand)) continue;
      count += operand == only ? 0 : 1;
      only = operand;
    }
    if (count != 1 || definition->results().size() != 1) break;
    at = only;
    if ((*at->type().dims)[static_cast<size_t>(flow.axes.at(at))] == extent) cut = at;
  }
  const SymbolRef requested = program.add_symbol("requested", SymbolKind::bound, {});
  Value* positions =
      main.add_parameter(Type::tensor(ElementType::i64, {requested}), "logit_positions");
  Instruction* after = cut->definition();
  Instruction* next = main.instructions().empty() ? nullptr : main.instructions().front().get();
  if (after != nullptr) {
    auto place =
        std::ranges::find_if(main.instructions(), [&](const auto& i) { return i.get() == after; });
    next = ++place == main.instructions().end() ? nullptr : place->get();
  }
  Builder builder(main, next);
  Value* selected = builder(ops::gather, {cut, positions}, {{"axis", int64_t{flow.axes.at(cut)}}});
  if (cut == logits) {
    main.set_result(index_of(main, logits), selected);
    return positions->name();
  }
  // Only the head reads the gathered tokens; other readers keep all tokens.
  for (at = logits; at != cut;) {
    Instruction* definition = at->definition();
    for (int i = 0; i < static_cast<int>(definition->operands().size()); ++i) {
      Value* operand = definition->operands()[static_cast<size_t>(i)];
      if (operand == nullptr || !flow.axes.contains(operand)) continue;
      at = operand;
      if (operand == cut) definition->set_operand(i, selected);
    }
  }
  infer(main);
  return positions->name();
}

}  // namespace lathe
