// SPDX-License-Identifier: MIT
#include "passes/recognise_attention.h"

#include <algorithm>

#include "ir/op.h"

namespace lathe {
namespace {

using Found = std::optional<CachedAttention>;

Value* operand(const Instruction& instruction, size_t i) {
  return i < instruction.operands().size() ? instruction.operands()[i] : nullptr;
}
template <class T>
T attribute(const Instruction& instruction, std::string_view name) {
  return std::get<T>(*find_attribute(instruction.attributes(), name));
}
std::string_view name_of(const Value* value) {
  return value->definition() == nullptr ? std::string_view() : value->definition()->op().name;
}
bool passes_on(std::string_view op) { return op == "identity" || op == "dropout"; }

int64_t heads_of(const Value* value, int64_t given) {
  if (value->type().rank() != 4) return given;
  return (*value->type().dims)[1].constant().value_or(0);
}

// A cache on its way into a product.
struct CacheUse {
  Instruction* concat = nullptr;
  int64_t groups = 1;  // how often each head is repeated
  double scale = 1;
};

class Recognition {
 public:
  Recognition(const PositionFlow& flow, const RowExtents& extents, NotAttention& not_it)
      : flow_(flow), extents_(extents), not_it_(not_it) {}

  Found run(Instruction& owner) {
    if (owner.op().name == "attention") return standard(owner);
    if (owner.op().name == "multi_head_attention") return multi_head(owner);
    if (owner.op().name == "concat") return products(owner);
    return refuse(owner, "it makes a state, and is no attention that is known");
  }

 private:
  std::nullopt_t refuse(const Instruction& instruction, std::string why) {
    not_it_ = {&instruction, std::move(why)};
    return std::nullopt;
  }

  // Joins what a mask allows; false if it is not one of position.
  bool absorb(const Value* mask, double scale, bool& causal, CachedAttention& found) {
    const Known* known = flow_.find(mask);
    if (known == nullptr) return false;
    const bool boolean = mask->type().element == ElementType::boolean;
    if (known->is_constant()) return boolean ? known->yes != 0 : known->yes == 0;
    const std::optional<KeyMask> keys =
        key_mask(*known, boolean, scale, extents_.past, extents_.past + extents_.rows);
    if (!keys) return false;
    causal = true;
    narrow(keys->window, found);
    return true;
  }
  static void narrow(int64_t window, CachedAttention& found) {
    if (window > 0) found.window = found.window == 0 ? window : std::min(found.window, window);
  }

  Found standard(Instruction& owner) {
    CachedAttention found;
    found.query = operand(owner, 0);
    found.key = operand(owner, 1);
    found.value = operand(owner, 2);
    found.past_key = operand(owner, 4);
    found.past_value = operand(owner, 5);
    found.result = owner.result(0);
    found.present_key = owner.result(1);
    found.present_value = owner.result(2);
    found.heads = heads_of(found.query, attribute<int64_t>(owner, "q_num_heads"));
    found.kv_heads = heads_of(found.key, attribute<int64_t>(owner, "kv_num_heads"));
    found.scale = attribute<double>(owner, "scale");
    found.softcap = attribute<double>(owner, "softcap");
    if (operand(owner, 6) != nullptr || !owner.result(3)->uses().empty()) {
      return refuse(owner, "it takes lengths of its own, or gives its scores");
    }
    bool causal = attribute<bool>(owner, "is_causal");
    const int64_t left = attribute<int64_t>(owner, "left_window_size");
    const int64_t right = attribute<int64_t>(owner, "right_window_size");
    if (left >= 0) narrow(left + 1, found);
    causal = causal || right == 0;
    if (const Value* mask = operand(owner, 3); mask && !absorb(mask, 1, causal, found)) {
      return refuse(owner, "its mask is not one of position");
    }
    if (!causal) return refuse(owner, "it is not causal");
    return found;
  }

  Found multi_head(Instruction& owner) {
    CachedAttention found;
    found.query = operand(owner, 0);
    found.key = operand(owner, 1);
    found.value = operand(owner, 2);
    found.past_key = operand(owner, 6);
    found.past_value = operand(owner, 7);
    found.result = owner.result(0);
    found.present_key = owner.result(1);
    found.present_value = owner.result(2);
    found.heads = found.kv_heads = attribute<int64_t>(owner, "num_heads");
    found.scale = attribute<double>(owner, "scale");
    if (found.key == nullptr || found.value == nullptr || found.query->type().rank() != 3 ||
        found.key->type().rank() != 3 || found.value->type().rank() != 3 || operand(owner, 3)) {
      return refuse(owner, "its operands are packed, projected already, or have a bias");
    }
    if (!owner.result(3)->uses().empty()) return refuse(owner, "it gives its scores");
    bool causal = attribute<bool>(owner, "unidirectional");
    if (const Value* mask = operand(owner, 4)) {
      const Known* known = flow_.find(mask);
      if (known == nullptr || !known->is_constant() || known->yes == 0 ||
          mask->type().rank() == 1) {
        return refuse(owner, "its padding is not known");
      }
    }
    if (const Value* addend = operand(owner, 5); addend && !absorb(addend, 1, causal, found)) {
      return refuse(owner, "its bias is not a mask of position");
    }
    if (!causal) return refuse(owner, "it is not causal");
    return found;
  }

  std::optional<double> scalar(const Value* value) const {
    const Known* known = value == nullptr ? nullptr : flow_.find(value);
    if (known == nullptr || !known->is_constant()) return std::nullopt;
    return known->yes;
  }

  // x · c, c · x or x / c: the other operand and the factor.
  std::optional<std::pair<Value*, double>> factor(const Instruction& instruction) const {
    const std::string_view op = instruction.op().name;
    if (op != "mul" && op != "div") return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const std::optional<double> by = scalar(operand(instruction, i));
      if (!by || (op == "div" && i == 0)) continue;
      return std::pair{operand(instruction, 1 - i), op == "mul" ? *by : 1 / *by};
    }
    return std::nullopt;
  }

  // Back from a product to concat(past, new) along the rows. `turned`: the last axes are swapped.
  std::optional<CacheUse> cache_behind(Value* value, bool turned) const {
    CacheUse use;
    while (Instruction* definition = value->definition()) {
      const std::string_view op = definition->op().name;
      if (op == "concat") {
        if (turned || definition->operands().size() != 2 || value->type().rank() != 4) return {};
        const int64_t axis = attribute<int64_t>(*definition, "axis");
        if (axis != 2 && axis != -2) return {};
        use.concat = definition;
        return use;
      }
      if (op == "transpose") {
        const Integers order = attribute<Integers>(*definition, "permutation");
        if (order != Integers{0, 1, 3, 2} && order != Integers{0, 2, 1}) return {};
        turned = !turned;
      } else if (op == "reshape" && definition->operands()[0]->type().rank() == 5) {
        Value* one = repeated(definition->operands()[0], use.groups);
        if (one == nullptr) return {};
        value = one;
        continue;
      } else if (const auto by = factor(*definition)) {
        use.scale *= by->second;
        value = by->first;
        continue;
      } else if (!passes_on(op) && !(op == "reshape" && alike(value, operand(*definition, 0)))) {
        return {};
      }
      value = operand(*definition, 0);
    }
    return {};
  }

  // Of equal extents but for a batch of one.
  static bool alike(const Value* a, const Value* b) {
    const auto extents = [](const Value* value) {
      std::vector<Dim> dims = *value->type().dims;
      if (dims.size() == 4 && dims.front() == Dim(1)) dims.erase(dims.begin());
      return dims;
    };
    return extents(a) == extents(b);
  }

  // Back from [b, heads, groups, keys, size] to [b, heads, keys, size].
  static Value* repeated(Value* value, int64_t& groups) {
    const std::vector<Dim> wide = *value->type().dims;
    const std::optional<int64_t> count = wide[2].constant();
    while (value->type().rank() == 5) {
      const std::string_view op = lathe::name_of(value);
      if (op != "expand" && op != "unsqueeze" && op != "reshape" && op != "identity")
        return nullptr;
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

  // Forward to the product that reads the cache, and from there to the softmax between the two; or
  // to an attention.
  Instruction* softmax_near(Value* value) {
    for (int steps = 0; steps < 64; ++steps) {
      Instruction* next = nullptr;
      for (const Use& use : value->uses()) {
        if (use.user == nullptr || use.user->op().name == "shape") continue;
        if (next != nullptr && next != use.user) return nullptr;
        next = use.user;
      }
      if (next == nullptr) return nullptr;
      if (next->op().name == "softmax" || next->op().name == "attention") return next;
      if (next->op().name == "matmul" && operand(*next, 1) == value) {
        Value* weights = operand(*next, 0);
        while (keeps_weights(lathe::name_of(weights))) {
          const Instruction* definition = weights->definition();
          weights = definition->operands()[definition->operands().size() == 3 ? 2 : 0];
        }
        if (lathe::name_of(weights) == "softmax") return weights->definition();
      }
      value = next->result();
    }
    return nullptr;
  }

  // The operator of its own, given what pasts and new rows make together.
  Found joined(Instruction& owner) {
    if (operand(owner, 4) != nullptr || attribute<bool>(owner, "is_causal") ||
        owner.operands()[0]->type().rank() != 4) {
      return refuse(owner, "it takes the first row of every run for that of the sequence");
    }
    const std::optional<CacheUse> keys = cache_behind(operand(owner, 1), false);
    const std::optional<CacheUse> values = cache_behind(operand(owner, 2), false);
    if (!keys || !values || keys->scale != 1 || values->scale != 1) {
      return refuse(owner, "what it attends to is no cache with new rows");
    }
    Found found = standard(owner);
    if (found) set_caches(*keys, *values, *found);
    if (found && !divides(*keys, *values, *found)) {
      return refuse(owner, "its heads are not a multiple of the cache's");
    }
    return found;
  }

  static void set_caches(const CacheUse& keys, const CacheUse& values, CachedAttention& found) {
    found.past_key = operand(*keys.concat, 0);
    found.key = operand(*keys.concat, 1);
    found.present_key = keys.concat->result();
    found.past_value = operand(*values.concat, 0);
    found.value = operand(*values.concat, 1);
    found.present_value = values.concat->result();
    found.heads = heads_of(found.query, 0);
    found.kv_heads = heads_of(found.key, 0);
  }
  static bool divides(const CacheUse& keys, const CacheUse& values, const CachedAttention& found) {
    const int64_t repeated = found.heads / std::max<int64_t>(found.kv_heads * keys.groups, 1);
    return keys.groups == values.groups && repeated > 0 &&
           found.heads == found.kv_heads * keys.groups * repeated;
  }

  Found products(Instruction& owner) {
    Instruction* softmax = softmax_near(owner.result());
    if (softmax == nullptr) return refuse(owner, "no softmax follows this state");
    if (softmax->op().name == "attention") return joined(*softmax);
    const int64_t axis = attribute<int64_t>(*softmax, "axis");
    if (axis != -1 && axis != softmax->result()->type().rank() - 1) {
      return refuse(*softmax, "it is not over keys");
    }
    CachedAttention found;
    bool causal = false;
    Instruction* scores = scores_before(*softmax, found, causal);
    if (scores == nullptr) return std::nullopt;
    Instruction* product = product_after(*softmax);
    if (product == nullptr) return refuse(*softmax, "no product with values follows");
    const std::optional<CacheUse> keys = cache_behind(operand(*scores, 1), true);
    const std::optional<CacheUse> values = cache_behind(operand(*product, 1), false);
    if (!keys || !values || values->scale != 1) {
      return refuse(keys ? *product : *scores, "what it multiplies is no cache with new rows");
    }
    if (!causal) return refuse(*softmax, "it is not causal");
    found.query = operand(*scores, 0);
    found.result = product->result();
    found.scale *= keys->scale;
    if (found.query->type().rank() != 4) return refuse(*scores, "its rows do not lie in heads");
    set_caches(*keys, *values, found);
    if (!divides(*keys, *values, found) || found.heads != found.kv_heads * keys->groups) {
      return refuse(*scores, "its heads are not a multiple of the cache's");
    }
    return found;
  }

  // Back from the softmax over masks, scale and cap to the product of queries and keys.
  Instruction* scores_before(const Instruction& softmax, CachedAttention& found, bool& causal) {
    Value* value = operand(softmax, 0);
    double scale = 1;
    while (Instruction* definition = value->definition()) {
      const std::string_view op = definition->op().name;
      if (op == "matmul") {
        found.scale = found.softcap > 0 ? scale * found.softcap : scale;
        return definition;
      }
      if (passes_on(op) || op == "cast") {
        value = operand(*definition, 0);
      } else if (const auto by = factor(*definition)) {
        value = by->first;
        scale *= by->second;
      } else if (op == "tanh" && found.softcap == 0 && scale > 0) {
        value = operand(*definition, 0);
        found.softcap = scale;
        scale = 1;
      } else if (op == "add" && found.softcap == 0) {
        const bool second = flow_.find(operand(*definition, 1)) != nullptr;
        if (!absorb(operand(*definition, second ? 1 : 0), scale, causal, found)) {
          refuse(*definition, "what it adds to scores is not a mask of position");
          return nullptr;
        }
        value = operand(*definition, second ? 0 : 1);
      } else if (op == "where" && found.softcap == 0) {
        value = unmasked(*definition, scale, causal, found);
        if (value == nullptr) {
          refuse(*definition, "it does not mask by position");
          return nullptr;
        }
      } else {
        refuse(*definition, "it stands between scores and softmax");
        return nullptr;
      }
    }
    refuse(softmax, "no product makes its scores");
    return nullptr;
  }

  // The scores in where(allowed, scores, low) or where(masked, low, scores).
  Value* unmasked(const Instruction& where, double scale, bool& causal, CachedAttention& found) {
    for (const size_t low : {2, 1}) {
      const std::optional<double> value = scalar(operand(where, low));
      const Known* condition = flow_.find(operand(where, 0));
      if (!value || condition == nullptr || *value * scale > kMasked) continue;
      Known allowed = *condition;
      if (low == 1) {
        if (allowed.conditions.size() != 1) return nullptr;
        Linear& one = allowed.conditions.front();
        for (int64_t& step : one.steps) step = -step;
        one.offset = Dim(-1) - one.offset;
      }
      const std::optional<KeyMask> keys =
          key_mask(allowed, true, 1, extents_.past, extents_.past + extents_.rows);
      if (!keys) return nullptr;
      causal = true;
      narrow(keys->window, found);
      return operand(where, 3 - low);
    }
    return nullptr;
  }

  static Instruction* product_after(const Instruction& softmax) {
    const Value* value = softmax.result();
    for (;;) {
      const Use* next = nullptr;
      for (const Use& use : value->uses()) {
        const std::string_view op = use.user == nullptr ? "" : use.user->op().name;
        if (op == "shape" || op == "is_nan") continue;
        if (next != nullptr || use.user == nullptr) return nullptr;
        next = &use;
      }
      if (next == nullptr) return nullptr;
      const std::string_view op = next->user->op().name;
      if (op == "matmul") return next->index == 0 ? next->user : nullptr;
      if (!keeps_weights(op) || (op == "where" && !is_guard(*next->user, value))) return nullptr;
      value = next->user->result();
    }
  }

  static bool keeps_weights(std::string_view op) {
    return passes_on(op) || op == "cast" || op == "where";
  }
  // where(is_nan(w), c, w): rows without a key; here each has its own.
  static bool is_guard(const Instruction& where, const Value* weights) {
    const Instruction* test = where.operands()[0]->definition();
    return where.operands()[2] == weights && test != nullptr && test->op().name == "is_nan" &&
           test->operands()[0] == weights;
  }

  const PositionFlow& flow_;
  const RowExtents& extents_;
  NotAttention& not_it_;
};

}  // namespace

Found recognise_attention(Instruction& owner, const PositionFlow& flow, const RowExtents& extents,
                          NotAttention& not_it) {
  return Recognition(flow, extents, not_it).run(owner);
}

}  // namespace lathe
