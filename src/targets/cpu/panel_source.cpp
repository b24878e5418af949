// SPDX-License-Identifier: MIT
#include "targets/cpu/panel_source.h"

#include <algorithm>

#include "ir/ops.h"
#include "passes/value_queries.h"
#include "targets/cpu/epilogue_chain.h"
#include "targets/cpu/gemm.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr size_t kB = 1;

struct Product {
  const Instruction* anchor = nullptr;
  const Value* b = nullptr;
};

// The matmul or gemm of an instruction whose kernel packs B; none for others.
std::optional<Product> product_of(const Instruction& instruction) {
  const bool is_region = instruction.op() == ops::region;
  const Instruction& anchor = is_region ? EpilogueChain::anchor_of(instruction) : instruction;
  if (!is_any_of(anchor.op(), {&ops::matmul, &ops::gemm})) return std::nullopt;
  if (!is_region) return Product{&anchor, anchor.operands()[kB]};
  const int place = EpilogueChain::anchor_operands(instruction)[kB];
  if (place < 0 || !EpilogueChain::why_not(instruction).empty()) return std::nullopt;
  const Value& own = *instruction.bodies()[0]->parameters()[static_cast<size_t>(place)];
  if (own.uses().size() != 1 || anchor.operands()[kB] != &own) return std::nullopt;
  return Product{&anchor, instruction.operands()[static_cast<size_t>(place)]};
}

const Tensor* constant_of(const Value& value) {
  const Instruction* made = value.definition();
  const bool fixed = made != nullptr && made->literal() != nullptr && !made->literal()->bindable;
  return fixed ? &made->literal()->tensor : nullptr;
}

bool is_matrix(const Tensor& tensor) {
  return tensor.rank() == 2 && tensor.count() > 0 && tensor.is_dense();
}

// Appends the constants under a deferred value; false if there is anything else.
bool add_parts(const Value& value, bool transposed, bool widened, PanelSource& source) {
  if (const Tensor* matrix = constant_of(value)) {
    const ElementType type = matrix->type();
    const bool halves = widened && (type == ElementType::bf16 || type == ElementType::f16);
    const bool plain = !widened && type == ElementType::f32;
    const bool alike = source.parts.empty() ||
                       (source.transposed == transposed && source.parts[0]->type() == type);
    source.transposed = transposed;
    source.parts.push_back(matrix);
    return (halves || plain) && alike && is_matrix(*matrix);
  }
  const Instruction* made = value.definition();
  if (made == nullptr || !made->deferred() || made->operands().empty()) return false;
  if (made->op() == ops::concat) {
    const auto axis = attribute<int64_t>(*made, "axis");
    return made->result()->type().rank() == 2 &&
           (axis < 0 ? axis + 2 : axis) == (transposed ? 0 : 1) &&
           std::ranges::all_of(made->operands(), [&](const Value* part) {
             return add_parts(*part, transposed, widened, source);
           });
  }
  const Value& read = *made->operands()[0];
  if (made->op() == ops::transpose && read.type().rank() == 2) {
    const auto order = attribute<std::vector<int64_t>>(*made, "permutation");
    const bool turns = order.empty() || order == std::vector<int64_t>{1, 0};
    return add_parts(read, transposed != turns, widened, source);
  }
  const bool widens = made->op() == ops::cast && value.type().element == ElementType::f32;
  return widens && add_parts(read, transposed, true, source);
}

// What the kernel of a GEMM packs: its constant as it is, or panel_source().
std::optional<PanelSource> packed_source(const Instruction& instruction) {
  const std::optional<Product> product = product_of(instruction);
  const Tensor* constant = product ? constant_of(*product->b) : nullptr;
  if (constant == nullptr) return panel_source(instruction);
  const std::optional<GemmType> type = gemm_type_of(*product->anchor);
  // Panels of others have another type.
  const bool same = (type == GemmType::f32 && constant->type() == ElementType::f32) ||
                    (type == GemmType::bf16 && constant->type() == ElementType::bf16);
  if (!same || !is_matrix(*constant)) return std::nullopt;
  return PanelSource{{constant}, attribute<bool>(*product->anchor, "trans_b"), *type};
}

// Panels of a GEMM that reads a value computed from the table, with its rows as columns.
std::optional<LookedUpPanels> panels_over(const Value& value, const Tensor& table) {
  for (const Use& use : value.uses()) {
    if (use.user == nullptr) continue;
    if (use.user->deferred()) {
      const bool moves = is_any_of(use.user->op(), {&ops::cast, &ops::transpose, &ops::concat});
      if (!moves) continue;
      if (auto found = panels_over(*use.user->result(), table)) return found;
      continue;
    }
    std::optional<PanelSource> source = packed_source(*use.user);
    // Other panels have rounded elements.
    const bool exact =
        source && (source->type == GemmType::f32 || source->parts[0]->type() == ElementType::bf16);
    if (!exact || !source->transposed) continue;
    // A plan evaluates what other kernels read.
    const bool packed = std::ranges::all_of(value.uses(), [&](const Use& each) {
      return constant_of(value) != nullptr ||
             (each.user != nullptr && panel_source(*each.user).has_value());
    });
    int64_t first = 0;
    for (const Tensor* part : source->parts) {
      if (packed && part->data() == table.data() && part->dims() == table.dims()) {
        return LookedUpPanels{*std::move(source), first};
      }
      first += part->dims()[0];
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PanelSource> panel_source(const Instruction& instruction) {
  const std::optional<Product> product = product_of(instruction);
  const Instruction* made = product ? product->b->definition() : nullptr;
  if (made == nullptr || !made->deferred()) return std::nullopt;
  const Instruction& anchor = *product->anchor;
  const std::optional<GemmType> type = gemm_type_of(anchor);
  if (!type || element_of(anchor, 0) != ElementType::f32 ||
      element_of(anchor, kB) != ElementType::f32) {
    return std::nullopt;
  }
  PanelSource source{.parts = {}, .type = *type};
  if (!add_parts(*product->b, attribute<bool>(anchor, "trans_b"), false, source)) {
    return std::nullopt;
  }
  const bool halves = source.type == GemmType::f32 && source.parts[0]->type() != ElementType::f32;
  const auto has_whole_panels = [&](const Tensor* part) {
    return part->dims()[source.transposed ? 0 : 1] % kJoinedColumns == 0;
  };
  const bool fits =
      source.parts.size() == 1 || (halves && std::ranges::all_of(source.parts, has_whole_panels));
  return fits ? std::optional(std::move(source)) : std::nullopt;
}

std::optional<LookedUpPanels> looked_up_panels(const Instruction& gather) {
  if (!is_lookup(gather)) return std::nullopt;
  const Value& table = *gather.operands()[0];
  return panels_over(table, *constant_of(table));
}

}  // namespace lathe::cpu
