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

// The literal that a value has the elements of; null if there is none.
Value* unshaped(Value* value) {
  while (value != nullptr && defined_by(*value, ops::reshape) != nullptr) {
    value = value->definition()->operands()[0];
  }
  const Instruction* made = value == nullptr ? nullptr : defined_by(*value, ops::literal);
  return made == nullptr || made->literal()->bindable ? nullptr : value;
}

bool is_last_axis(const Instruction& lookup, std::string_view name, int64_t rank) {
  const auto axis = std::get<int64_t>(attribute(lookup, name));
  return axis == rank - 1 || axis == -1;
}

// A product whose columns are the entries that a gather_block_quantized without a block type
// dequantises; null if there is none.
const Instruction* product_of_codes(const Instruction& lookup) {
  enum Operand : size_t { kCodes, kIndices, kScales, kZeros };
  constexpr size_t kWeights = 1;  // then scales and zero points
  const auto& operands = lookup.operands();
  const Type& type = operands[kCodes]->type();
  const Value* codes = unshaped(operands[kCodes]);
  if (codes == nullptr || type.element != ElementType::u8 || type.rank() != 2 ||
      lookup.result()->type().element != ElementType::f32 ||
      std::get<int64_t>(attribute(lookup, "gather_axis")) != 0 ||
      !is_last_axis(lookup, "quantize_axis", type.rank())) {
    return nullptr;
  }
  const auto operand = [](const Instruction& of, size_t i) {
    return i < of.operands().size() ? of.operands()[i] : nullptr;
  };
  for (const Use& use : codes->uses()) {
    if (use.user == nullptr || use.user->op() != ops::matmul_n_bits || use.index != kWeights) {
      continue;
    }
    const Instruction& product = *use.user;
    const auto size = [&](std::string_view name) {
      return std::get<int64_t>(attribute(product, name));
    };
    // Entries of whole blocks have no padding, which columns have.
    bool same = attribute(product, "bits") == attribute(lookup, "bits") &&
                attribute(product, "block_size") == attribute(lookup, "block_size") &&
                size("k") % size("block_size") == 0 && (*type.dims)[0] == Dim(size("n")) &&
                (*type.dims)[1] == Dim(size("k") * size("bits") / 8) &&
                operand(product, 4) == nullptr;
    for (const size_t i : {kScales, kZeros}) {
      Value* own = operand(product, i);
      Value* read = operand(lookup, i);
      same &= (own == nullptr) == (read == nullptr) && (own == nullptr || own == unshaped(read));
    }
    if (same) return &product;
  }
  return nullptr;
}

Attributes sizes_of(const Instruction& product) {
  Attributes sizes;
  for (const char* name : {"k", "n", "bits", "block_size"}) {
    sizes.emplace_back(name, attribute(product, name));
  }
  return sizes;
}

// Looks codes up in the weights of a product that has them already.
bool join_codes(Instruction& lookup) {
  const Instruction* product = product_of_codes(lookup);
  if (product == nullptr) return false;
  Builder b(*lookup.module(), &lookup);
  b.set_origins(lookup.origins());
  std::vector<Value*> operands = {lookup.operands()[1]};
  for (size_t i = 1; i < product->operands().size() && i < 4; ++i) {
    operands.push_back(product->operands()[i]);
  }
  Value* rows = b(ops::gather_n_bits, std::move(operands), sizes_of(*product));
  lookup.module()->replace_uses(lookup.result(), rows);
  return true;
}

// The table's entries at the indices as f32; null if the instruction does not look them up.
Value* entries_of(Instruction& lookup) {
  Value* entries = lookup.result();
  if (lookup.op() == ops::gather_block_quantized) {
    const Instruction* table = defined_by(*lookup.operands()[0], ops::literal);
    return table != nullptr && !table->literal()->bindable ? entries : nullptr;
  }
  if (!is_lookup(lookup)) return nullptr;
  if (entries->type().element == ElementType::f32) return entries;
  Instruction* cast = entries->uses().size() == 1 ? entries->uses()[0].user : nullptr;
  const bool widens = cast != nullptr && cast->op() == ops::cast &&
                      cast->result()->type().element == ElementType::f32;
  return widens ? cast->result() : nullptr;
}

bool join(Instruction& lookup) {
  if (lookup.op() == ops::gather_block_quantized &&
      std::get<std::string>(attribute(lookup, "type")).empty()) {
    return join_codes(lookup);
  }
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
    Value* rows = b(ops::gather_n_bits, std::move(operands), sizes_of(*product));
    lookup.module()->replace_uses(entries, rows);
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
