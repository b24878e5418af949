// SPDX-License-Identifier: MIT
#include "passes/analysis/kv_cache_uses.h"

#include <algorithm>
#include <set>

#include "ir/ops.h"
#include "ops/op_origin.h"

namespace lathe {
namespace {

// Def-use distance from a cache to its softmax: transpose, expand, scale, matmul, cap, mask.
constexpr int kMaxUseSteps = 24;

bool is_attention(const Op& op) {
  return is_any_of(
      op, {&ops::attention, &ops::cached_attention, &ops::group_query_attention,
           &ops::linear_attention, &ops::multi_head_attention, &ops::paged_attention,
           &ops::sequence_attention, &ops::sequence_linear_attention, &ops::sparse_attention});
}

// Undoes the GQA repeat: [b, heads, groups, keys, size] back to [b, heads, keys, size].
Value* undo_repeat(Value* value, int64_t& groups) {
  const std::vector<Dim> wide = *value->type().dims;
  const std::optional<int64_t> count = wide[2].constant();
  while (value->type().rank() == 5) {
    const Op* op = op_of(value);
    if (op == nullptr ||
        !is_any_of(*op, {&ops::expand, &ops::unsqueeze, &ops::reshape, &ops::identity})) {
      return nullptr;
    }
    value = value->definition()->operands()[0];
  }
  const std::vector<Dim>& narrow = *value->type().dims;
  if (!count || narrow.size() != 4 || !(narrow[0] == wide[0]) || !(narrow[1] == wide[1]) ||
      !(narrow[2] == wide[3]) || !(narrow[3] == wide[4])) {
    return nullptr;
  }
  groups *= *count;
  return value;
}

// Undoes the split into heads: [b, keys, heads, size] back to [b, keys, heads · size].
Value* flat_operand(Value* heads) {
  if (op_of(heads) != &ops::reshape) return nullptr;
  Value* flat = heads->definition()->operands()[0];
  if (flat->type().rank() != 3 || heads->type().rank() != 4) return nullptr;
  const std::vector<Dim>& to = *heads->type().dims;
  const std::vector<Dim>& from = *flat->type().dims;
  const bool same = to[0] == from[0] && to[1] == from[1] && to[2] * to[3] == from[2];
  return same && to[2].is_constant() ? flat : nullptr;
}

class Trace {
 public:
  Trace(const AffineAnalysis& flow, const TokenExtents& extents) : flow_(flow), sizes_(extents) {}

  std::optional<KvCacheUse> run(Value* value, bool transposed) {
    while (Instruction* definition = value->definition()) {
      const Op& op = definition->op();
      if (op == ops::concat || op == ops::tensor_scatter || is_attention(op)) {
        return !transposed && match_end(*definition, value) ? std::optional(use_) : std::nullopt;
      }
      value = step_back(*definition, value, transposed);
      if (value == nullptr) return std::nullopt;
    }
    use_.past = use_.present = value;
    return !transposed ? std::optional(use_) : std::nullopt;
  }

 private:
  // Steps to the operand; null if the instruction changes the cache's values.
  Value* step_back(const Instruction& definition, Value* value, bool& transposed) {
    const Op& op = definition.op();
    Value* first = operand(definition, 0);
    if (op == ops::transpose) return step_over_transpose(definition, first, transposed);
    if (op == ops::reshape && first->type().rank() == 5) return undo_repeat(first, use_.groups);
    if (const auto by = factor_of(definition, flow_)) {
      use_.scale *= by->second;
      return by->first;
    }
    const bool same = passes_on(op) || (op == ops::reshape && alike(value, first));
    return same ? first : nullptr;
  }

  Value* step_over_transpose(const Instruction& definition, Value* first, bool& transposed) {
    const auto order = required_attribute<Integers>(definition, "permutation");
    if (order == Integers{0, 1, 3, 2} || order == Integers{0, 2, 1}) {
      transposed = !transposed;
      return first;
    }
    if (order != (transposed ? Integers{0, 2, 3, 1} : Integers{0, 2, 1, 3})) return nullptr;
    transposed = false;
    use_.heads = (*first->type().dims)[2].constant().value_or(0);
    return flat_operand(first);
  }

  bool match_end(const Instruction& definition, Value* value) {
    use_.present = value;
    const Op& op = definition.op();
    if (op == ops::concat) {
      if (definition.operands().size() != 2 || !along_tokens(definition, value)) return false;
      use_.past = operand(definition, 0);
      use_.fresh = operand(definition, 1);
      return value->type().rank() == 4;
    }
    if (op == ops::tensor_scatter) return match_scatter(definition, value);
    const size_t past = op == ops::attention               ? 4
                        : op == ops::multi_head_attention  ? 6
                        : op == ops::group_query_attention ? 3
                                                           : 0;
    const int which = value->definition() == nullptr ? 0 : value->index();
    if (past == 0 || (which != 1 && which != 2)) return false;
    use_.past = operand(definition, past + static_cast<size_t>(which) - 1);
    use_.fresh = operand(definition, static_cast<size_t>(which));
    return use_.past != nullptr && use_.fresh != nullptr;
  }

  // tensor_scatter behind the past equals concat.
  bool match_scatter(const Instruction& scatter, const Value* value) {
    const Value* at = operand(scatter, 2);
    const AffineValue* known = at == nullptr ? nullptr : flow_.find(at);
    const bool behind =
        known != nullptr && known->linear && known->linear->offset == sizes_.past &&
        std::ranges::count(known->linear->steps, 0) == std::ssize(known->linear->steps);
    if (!behind || sizes_.past == Dim(0) || !along_tokens(scatter, value)) return false;
    use_.past = operand(scatter, 0);
    use_.fresh = operand(scatter, 1);
    if (required_attribute<std::string>(scatter, "mode") != "circular") return true;
    const size_t axis = value->type().rank() == 3 ? 1 : 2;
    use_.window = (*value->type().dims)[axis].constant().value_or(0);
    return use_.window > 0;
  }

  // Heads [b, heads, tokens, size] or flat [b, tokens, heads · size].
  static bool along_tokens(const Instruction& instruction, const Value* value) {
    const int rank = value->type().rank();
    const auto axis = required_attribute<int64_t>(instruction, "axis");
    return (rank == 3 || rank == 4) && (axis < 0 ? axis + rank : axis) == rank - 2;
  }

  const AffineAnalysis& flow_;
  const TokenExtents& sizes_;
  KvCacheUse use_;
};

// The softmax whose weights `product` multiplies with values.
Instruction* softmax_of(const Instruction& product) {
  Value* weights = operand(product, 0);
  for (;;) {
    const Instruction* definition = weights->definition();
    if (definition == nullptr) return nullptr;
    const Op& op = definition->op();
    const bool unsqueezed = op == ops::reshape && alike(weights, operand(*definition, 0));
    if (!unsqueezed && !keeps_weights(op)) break;
    weights = definition->operands()[definition->operands().size() == 3 ? 2 : 0];
  }
  return op_of(weights) == &ops::softmax ? weights->definition() : nullptr;
}

}  // namespace

Value* operand(const Instruction& instruction, size_t i) {
  return i < instruction.operands().size() ? instruction.operands()[i] : nullptr;
}
const Op* op_of(const Value* value) {
  return value->definition() == nullptr ? nullptr : &value->definition()->op();
}
bool passes_on(const Op& op) { return op == ops::identity || op == ops::dropout; }
bool keeps_weights(const Op& op) { return passes_on(op) || op == ops::cast || op == ops::where; }

bool alike(const Value* a, const Value* b) {
  const auto extents = [](const Value* value) {
    std::vector<Dim> dims = *value->type().dims;
    if (dims.size() == 4 && dims.front() == Dim(1)) dims.erase(dims.begin());
    return dims;
  };
  return extents(a) == extents(b);
}

std::optional<double> constant_of(const Value* value, const AffineAnalysis& flow) {
  const AffineValue* known = value == nullptr ? nullptr : flow.find(value);
  if (known == nullptr || !known->is_constant()) return std::nullopt;
  return known->yes;
}

std::optional<std::pair<Value*, double>> factor_of(const Instruction& instruction,
                                                   const AffineAnalysis& flow) {
  const Op& op = instruction.op();
  if (op != ops::mul && op != ops::div) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<double> by = constant_of(operand(instruction, i), flow);
    if (!by || (op == ops::div && i == 0)) continue;
    return std::pair{operand(instruction, 1 - i), op == ops::mul ? *by : 1 / *by};
  }
  return std::nullopt;
}

std::optional<KvCacheUse> trace_kv_cache(Value* value, bool transposed, const AffineAnalysis& flow,
                                         const TokenExtents& extents) {
  return Trace(flow, extents).run(value, transposed);
}

std::vector<Instruction*> cache_readers(Value* cache) {
  std::vector<Instruction*> readers;
  std::set<const Value*> seen = {cache};
  std::vector<Value*> front = {cache};
  const auto add = [&](Instruction* reader) {
    if (std::ranges::find(readers, reader) == readers.end()) readers.push_back(reader);
  };
  for (int steps = 0; steps < kMaxUseSteps && !front.empty(); ++steps) {
    std::vector<Value*> next;
    for (Value* value : front) {
      for (const Use& use : value->uses()) {
        if (use.user == nullptr || use.user->results().empty()) continue;
        if (use.user->op() == ops::shape) continue;
        const Op& op = use.user->op();
        Instruction* softmax =
            op == ops::matmul && use.index == 1 ? softmax_of(*use.user) : nullptr;
        if (op == ops::softmax || is_attention(op)) {
          add(use.user);
        } else if (softmax != nullptr) {
          add(softmax);
        } else if (seen.insert(use.user->result()).second) {
          next.push_back(use.user->result());
        }
      }
    }
    front = std::move(next);
  }
  return readers;
}

}  // namespace lathe
