// SPDX-License-Identifier: MIT
#include "passes/decoder/gather_before_head.h"

#include <algorithm>

#include "ir/builder.h"

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
  const Instruction* reader = nullptr;  // of `at`; null: the results
  while (Instruction* definition = at->definition()) {
    if (definition->op().name.starts_with("sequence_")) break;
    // What others read, or the caller as another result, keeps all its rows.
    if (!std::ranges::all_of(at->uses(), [&](const auto& use) { return use.user == reader; }))
      break;
    reader = definition;
    Value* only = nullptr;
    int count = 0;
    for (Value* operand : definition->operands()) {
      if (operand == nullptr || !flow.rows.contains(operand)) continue;
      count += operand == only ? 0 : 1;
      only = operand;
    }
    if (count != 1 || definition->results().size() != 1) break;
    at = only;
    if ((*at->type().dims)[static_cast<size_t>(flow.rows.at(at))] == extent) cut = at;
  }
  const SymbolRef wanted = program.add_symbol("wanted", SymbolKind::bound, {});
  Value* rows = main.add_parameter(Type::tensor(ElementType::i64, {wanted}), "wanted_rows");
  Instruction* after = cut->definition();
  Instruction* next = main.instructions().empty() ? nullptr : main.instructions().front().get();
  if (after != nullptr) {
    auto place =
        std::ranges::find_if(main.instructions(), [&](const auto& i) { return i.get() == after; });
    next = ++place == main.instructions().end() ? nullptr : place->get();
  }
  Builder builder(main, next);
  Value* selected = builder("gather", {cut, rows}, {{"axis", int64_t{flow.rows.at(cut)}}});
  if (cut == logits) {
    main.set_result(index_of(main, logits), selected);
    return rows->name();
  }
  // Only the tail reads the selection; other readers keep all rows.
  for (at = logits; at != cut;) {
    Instruction* definition = at->definition();
    for (int i = 0; i < static_cast<int>(definition->operands().size()); ++i) {
      Value* operand = definition->operands()[static_cast<size_t>(i)];
      if (operand == nullptr || !flow.rows.contains(operand)) continue;
      at = operand;
      if (operand == cut) definition->set_operand(i, selected);
    }
  }
  infer(main);
  return rows->name();
}

}  // namespace lathe
