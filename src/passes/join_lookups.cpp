// SPDX-License-Identifier: MIT
#include "passes/join_lookups.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

const Attribute& attribute(const Instruction& instruction, std::string_view name) {
  return *find_attribute(instruction.attributes(), name);
}

// A product whose weights are the columns that a quantize_blocks makes of the rows of a table; null
// if there is none.
const Instruction* product_of(const Instruction& quantised) {
  for (const Use& use : quantised.result(0)->uses()) {
    if (use.user == nullptr || use.user->op() != ops::matmul_n_bits || use.index != 1) continue;
    const auto& operands = use.user->operands();
    const bool all =
        operands[2] == quantised.result(1) &&
        (operands.size() < 4 || operands[3] == nullptr || operands[3] == quantised.result(2)) &&
        (operands.size() < 5 || operands[4] == nullptr);
    if (all) return use.user;
  }
  return nullptr;
}

// The table's entries at the indices as f32; null if the instruction does not look them up.
Value* entries_of(Instruction& lookup) {
  Value* entries = lookup.result();
  if (lookup.op() == ops::gather_block_quantized) {
    const Instruction* table = defined_by(*lookup.operands()[0], ops::literal);
    const bool blocks = table != nullptr && !table->literal()->bindable &&
                        !std::get<std::string>(attribute(lookup, "type")).empty();
    return blocks ? entries : nullptr;
  }
  if (!is_lookup(lookup)) return nullptr;
  if (entries->type().element == ElementType::f32) return entries;
  Instruction* cast = entries->uses().size() == 1 ? entries->uses()[0].user : nullptr;
  const bool widens = cast != nullptr && cast->op() == ops::cast &&
                      cast->result()->type().element == ElementType::f32;
  return widens ? cast->result() : nullptr;
}

bool join(Instruction& lookup) {
  Value* entries = entries_of(lookup);
  if (entries == nullptr) return false;
  Value* table = lookup.operands()[0];
  for (const Use& use : table->uses()) {
    const Instruction* quantised = use.user;
    if (quantised == nullptr || quantised->op() != ops::quantize_blocks) continue;
    const bool by_rows = lookup.op() == ops::gather
                             ? std::get<bool>(attribute(*quantised, "transposed"))
                             : attribute(*quantised, "type") == attribute(lookup, "type");
    const Instruction* product = by_rows ? product_of(*quantised) : nullptr;
    if (product == nullptr) continue;
    Builder b(*lookup.module(), &lookup);
    b.set_origins(lookup.origins());
    // A copy before the lookup, which later passes merge with the original.
    Instruction* weights = b.add(ops::quantize_blocks, {table}, quantised->attributes());
    weights->set_deferred(quantised->deferred());
    std::vector<Value*> operands = {lookup.operands()[1], weights->result(0), weights->result(1)};
    if (product->operands().size() > 3 && product->operands()[3] != nullptr) {
      operands.push_back(weights->result(2));
    }
    Attributes sizes;
    for (const char* name : {"k", "n", "bits", "block_size"}) {
      sizes.emplace_back(name, attribute(*product, name));
    }
    lookup.module()->replace_uses(entries, b(ops::gather_n_bits, std::move(operands), sizes));
    return true;
  }
  return false;
}

bool join_all_lookups(Program& program) {
  bool changed = false;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const bool looks_up =
          is_any_of(instruction->op(), {&ops::gather, &ops::gather_block_quantized});
      if (looks_up && !instruction->deferred()) changed |= join(*instruction);
    }
  }
  return changed;
}

}  // namespace

const Pass join_lookups{
    .name = "join_lookups",
    .doc = "Lets lookups in a tied embedding read the quantised weights of the head.",
    .run = join_all_lookups,
};

}  // namespace lathe
