// SPDX-License-Identifier: MIT
#include "passes/decoder/simplify_paged_caches.h"

#include <algorithm>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/ops.h"

namespace lathe {
namespace {

class PagedCacheRemoval {
 public:
  PagedCacheRemoval(Program& program, const DecoderInterface& names)
      : names_(names), program_(program), main_(program.main()) {}

  bool run() {
    const Value* tokens = parameter(names_.tokens);
    if (tokens == nullptr || !tokens->type().is_ranked() || tokens->type().rank() != 1 ||
        !std::ranges::all_of(names_.states, [&](const StatePair& p) { return is_paged(p); })) {
      return false;
    }
    const Dim batch = add_symbol("batch");
    const Dim count = add_symbol("tokens");
    const Dim past = add_symbol("past");
    for (const std::string& name : {names_.tokens, names_.positions}) {
      if (Value* value = parameter(name)) {
        value->set_type(Type::tensor(value->type().element, {batch, count}));
      }
    }
    last_ = main_.add_parameter(Type::tensor(ElementType::i32, {batch}), "last_positions");
    total_ = main_.add_parameter(Type::tensor(ElementType::i32, {1}), "total_tokens");
    for (const StatePair& pair : names_.states) {
      Value* cache = parameter(pair.past);
      const std::vector<Dim>& dims = *cache->type().dims;
      cache->set_type(Type::tensor(cache->type().element, {batch, dims[2], past, dims[3]}));
    }
    // Infers types in program order: each operator is rebuilt from operands with new types.
    main_.guards().clear();
    std::vector<std::pair<Instruction*, int>> all;  // with the rank of the first operand
    for (const auto& instruction : main_.instructions()) {
      const auto& operands = instruction->operands();
      const bool ranked = !operands.empty() && operands[0] != nullptr &&
                          operands[0]->type().is_tensor() && operands[0]->type().is_ranked();
      all.emplace_back(instruction.get(), ranked ? operands[0]->type().rank() : -1);
    }
    for (const auto& [instruction, rank] : all) {
      if (instruction->op() == ops::paged_attention) {
        replace(*instruction);
        continue;
      }
      if (instruction->op() == ops::reshape) keep_axis(*instruction, rank);
      infer(*instruction);
    }
    return true;
  }

 private:
  // True for a cache that one paged_attention reads.
  bool is_paged(const StatePair& pair) const {
    const Value* cache = parameter(pair.past);
    const bool single = cache != nullptr && cache->uses().size() == 1 &&
                        cache->uses().front().user != nullptr &&
                        cache->uses().front().user->op() == ops::paged_attention;
    return single && cache->type().rank() == 4;
  }

  Value* parameter(const std::string& name) const {
    const auto& all = main_.parameters();
    const auto at = std::ranges::find_if(all, [&](const auto& p) { return p->name() == name; });
    return at == all.end() ? nullptr : at->get();
  }

  Dim add_symbol(std::string_view name) { return program_.add_symbol(name, SymbolKind::bound, {}); }

  // A leading 0 copies the token axis; the shape gets one more for the new batch axis.
  void keep_axis(Instruction& reshape, int rank_before) {
    const auto& shape = reshape.operands()[1]->elements();
    const bool grown = reshape.operands()[0]->type().rank() == rank_before + 1;
    const auto known = [](const Dim& dim) { return dim.is_constant(); };
    if (!grown || !shape || shape->empty() || !std::ranges::all_of(*shape, known) ||
        !(shape->front() == Dim(0)) ||
        std::get<bool>(*find_attribute(reshape.attributes(), "allow_zero"))) {
      return;
    }
    std::vector<int64_t> values = {0};
    for (const Dim& dim : *shape) values.push_back(*dim.constant());
    Builder builder(main_, &reshape);
    builder.set_origins(reshape.origins());
    reshape.set_operand(1, builder.integers(values));
  }

  // Drops slots and block table: group_query_attention appends to a contiguous cache.
  void replace(Instruction& paged) {
    const auto operand = [&](size_t i) {
      return i < paged.operands().size() ? paged.operands()[i] : nullptr;
    };
    Builder builder(main_, &paged);
    builder.set_origins(paged.origins());
    std::vector<Value*> operands = {operand(0), operand(1),  operand(2),  operand(3), operand(4),
                                    last_,      total_,      operand(8),  operand(9), nullptr,
                                    nullptr,    operand(11), operand(12), operand(13)};
    while (operands.back() == nullptr) operands.pop_back();
    Instruction* grouped = builder.add(ops::group_query_attention, operands, paged.attributes());
    for (int i = 0; i < 3; ++i) main_.replace_uses(paged.result(i), grouped->result(i));
    main_.erase(&paged);
  }

  const DecoderInterface& names_;
  Program& program_;
  Module& main_;
  Value* last_ = nullptr;
  Value* total_ = nullptr;
};

}  // namespace

Pass simplify_paged_caches(const DecoderInterface& interface) {
  return {.name = "simplify_paged_caches",
          .doc = "Rewrites paged KV caches to contiguous ones.",
          .run = [names = interface](
                     Program& program) { return PagedCacheRemoval(program, names).run(); },
          .changes_interface = true,
          .changes_requirements = true};
}

}  // namespace lathe
