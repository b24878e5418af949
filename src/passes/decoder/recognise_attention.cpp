// SPDX-License-Identifier: MIT
#include "passes/decoder/recognise_attention.h"

#include <algorithm>
#include <set>

#include "ir/ops.h"
#include "ops/op_origin.h"
#include "passes/analysis/kv_cache_uses.h"

namespace lathe {
namespace {

using Found = std::optional<CachedAttention>;

constexpr int kMostSteps = 24;  // def-use distance from a sum to the matmul of the scores

int64_t heads_of(const Value* value, int64_t given) {
  if (value->type().rank() != 4) return given;
  return (*value->type().dims)[1].constant().value_or(0);
}

class Recognition {
 public:
  Recognition(const AffineAnalysis& flow, const TokenExtents& extents, NotAttention& not_it)
      : flow_(flow), extents_(extents), biases_(flow, extents), not_it_(not_it) {}

  std::vector<CachedAttention> run(Instruction& owner) {
    std::vector<CachedAttention> all;
    const Op& op = owner.op();
    const bool grows = op == ops::concat || op == ops::tensor_scatter;
    const bool attends = op == ops::attention || op == ops::multi_head_attention;
    if (!grows && !attends && op != ops::group_query_attention) {
      refuse(owner, "it produces a state and is not a known attention");
      return {};
    }
    if (attends) {
      const Found own = op == ops::attention ? standard(owner) : multi_head(owner);
      if (!own) return {};
      all.push_back(*own);
    }
    Value* cache = owner.result(grows ? 0 : 1);
    for (Instruction* reader : cache_readers(cache)) {
      Found found = over_cache(*reader);
      const bool same = found && (found->present_key == cache || found->present_value == cache);
      if (found && !same) found = refuse(*reader, "it reads a state but is not attention over it");
      if (!found) return {};
      if (!grows) found->use = CacheUse::shared;
      all.push_back(*found);
    }
    if (grows && all.empty()) refuse(owner, "no attention reads this state");
    return all;
  }

  std::vector<CachedAttention> run_across(Value* keys) {
    std::vector<CachedAttention> all;
    for (Instruction* reader : cache_readers(keys)) {
      Found found = across(*reader);
      if (!found) return {};
      if (found->past_key == keys) all.push_back(*found);
    }
    return all;
  }

 private:
  std::nullopt_t refuse(const Instruction& instruction, std::string why) {
    not_it_ = {&instruction, std::move(why)};
    return std::nullopt;
  }

  bool is_count(const Value* value, const Dim& count) const {
    const AffineValue* known = flow_.find(value);
    return known != nullptr && known->linear && known->linear->offset == count &&
           std::ranges::count(known->linear->steps, 0) == std::ssize(known->linear->steps);
  }
  // True if every element is the number of past and new tokens.
  bool is_total(const Value* value) const {
    return is_count(value, extents_.past + extents_.tokens);
  }

  Found standard(Instruction& owner, CacheUse use = CacheUse::appended) {
    CachedAttention found;
    found.use = use;
    found.query = operand(owner, 0);
    found.key = operand(owner, 1);
    found.value = operand(owner, 2);
    found.past_key = operand(owner, 4);
    found.past_value = operand(owner, 5);
    found.result = owner.result(0);
    found.present_key = owner.result(1);
    found.present_value = owner.result(2);
    found.heads = heads_of(found.query, required_attribute<int64_t>(owner, "q_num_heads"));
    found.kv_heads = heads_of(found.key, required_attribute<int64_t>(owner, "kv_num_heads"));
    found.scale = required_attribute<double>(owner, "scale");
    found.softcap = required_attribute<double>(owner, "softcap");
    const Value* length = operand(owner, 6);
    if ((length != nullptr && (found.past_key != nullptr || !is_total(length))) ||
        !owner.result(3)->uses().empty()) {
      return refuse(owner, "it has explicit key lengths, or returns its scores");
    }
    found.causal = required_attribute<bool>(owner, "is_causal");
    const int64_t left = required_attribute<int64_t>(owner, "left_window_size");
    const int64_t right = required_attribute<int64_t>(owner, "right_window_size");
    if (left >= 0) found.narrow_window(left + 1);
    found.causal = found.causal || right == 0;
    if (const Value* mask = operand(owner, 3); mask && !biases_.join(mask, 1, found)) {
      return refuse(owner, "its mask is neither causal nor ALiBi");
    }
    return checked(owner, found);
  }

  // Self-attention must be causal; cross-attention has no token order.
  Found checked(const Instruction& owner, const CachedAttention& found) {
    const bool across = found.use == CacheUse::cross;
    if (!across && !found.causal) return refuse(owner, "it is not causal");
    if (across && (found.causal || found.window > 0 || !found.slopes.empty())) {
      return refuse(owner, "cross-attention has a causal mask, window or slopes");
    }
    return found;
  }

  Found multi_head(Instruction& owner, CacheUse use = CacheUse::appended) {
    CachedAttention found;
    found.use = use;
    found.query = operand(owner, 0);
    found.key = operand(owner, 1);
    found.value = operand(owner, 2);
    found.past_key = operand(owner, 6);
    found.past_value = operand(owner, 7);
    found.result = owner.result(0);
    found.present_key = owner.result(1);
    found.present_value = owner.result(2);
    found.heads = found.kv_heads = required_attribute<int64_t>(owner, "num_heads");
    found.scale = required_attribute<double>(owner, "scale");
    const int rank = use == CacheUse::cross ? 4 : 3;
    if (found.key == nullptr || found.value == nullptr || found.query->type().rank() != 3 ||
        found.key->type().rank() != rank || found.value->type().rank() != rank ||
        operand(owner, 3)) {
      return refuse(owner, "its operands are packed or projected, or have a bias");
    }
    if (!owner.result(3)->uses().empty()) return refuse(owner, "it returns its scores");
    const Value* past = operand(owner, 8);
    if (operand(owner, 9) != nullptr || (past != nullptr && !is_count(past, extents_.past))) {
      return refuse(owner, "its past length is not the number of cached tokens");
    }
    found.causal = required_attribute<bool>(owner, "unidirectional");
    if (const Value* mask = operand(owner, 4)) {
      const AffineValue* known = flow_.find(mask);
      if (known == nullptr || !known->is_constant() || known->yes == 0 ||
          mask->type().rank() == 1) {
        return refuse(owner, "its padding mask is not all ones");
      }
    }
    if (const Value* addend = operand(owner, 5); addend && !biases_.join(addend, 1, found)) {
      return refuse(owner, "its bias is neither a causal mask nor ALiBi");
    }
    return checked(owner, found);
  }

  Found over_cache(Instruction& reader) {
    if (reader.op() == ops::softmax) return unfused(reader);
    if (reader.op() == ops::attention) return fused_over_concat(reader);
    return refuse(reader, "it shares its cache, or writes to a cache of fixed capacity");
  }

  Found across(Instruction& reader) {
    const Op& op = reader.op();
    if (op == ops::softmax) return unfused(reader, CacheUse::cross);
    const bool standard_op = op == ops::attention;
    if (!standard_op && op != ops::multi_head_attention) {
      return refuse(reader, "it is not a known attention");
    }
    const auto keys = trace_kv_cache(operand(reader, 1), false, flow_, extents_);
    const auto values = trace_kv_cache(operand(reader, 2), false, flow_, extents_);
    const bool own = operand(reader, standard_op ? 4 : 6) == nullptr;
    const bool plain = keys && values && keys->scale == 1 && values->scale == 1;
    if (!own || !plain || keys->fresh != nullptr || values->fresh != nullptr) {
      return refuse(reader, "its keys or values are not unmodified inputs");
    }
    Found found =
        standard_op ? standard(reader, CacheUse::cross) : multi_head(reader, CacheUse::cross);
    if (found) set_caches(*keys, *values, *found);
    if (found && !divides(*keys, *values, *found)) {
      return refuse(reader, "its heads are not a multiple of the KV cache's");
    }
    return found;
  }

  // An attention op whose keys and values are concat(past, new).
  Found fused_over_concat(Instruction& owner) {
    const bool has_order = required_attribute<bool>(owner, "is_causal") ||
                           required_attribute<int64_t>(owner, "left_window_size") >= 0 ||
                           required_attribute<int64_t>(owner, "right_window_size") >= 0;
    if (operand(owner, 4) != nullptr || (has_order && operand(owner, 6) == nullptr)) {
      return refuse(owner,
                    "its causal mask or window starts at the first new token, not at the past");
    }
    const auto keys = trace_kv_cache(operand(owner, 1), false, flow_, extents_);
    const auto values = trace_kv_cache(operand(owner, 2), false, flow_, extents_);
    const bool caches = keys && values && keys->fresh != nullptr && values->fresh != nullptr;
    if (!caches || keys->scale != 1 || values->scale != 1) {
      return refuse(owner, "its keys or values are not a KV cache with new tokens");
    }
    Found found = standard(owner);
    if (!found) return std::nullopt;
    if (!fits_ring(owner, *keys, *values, *found)) return std::nullopt;
    set_caches(*keys, *values, *found);
    if (!divides(*keys, *values, *found)) {
      return refuse(owner, "its heads are not a multiple of the KV cache's");
    }
    return found;
  }

  static void set_caches(const KvCacheUse& keys, const KvCacheUse& values, CachedAttention& found) {
    found.past_key = keys.past;
    found.key = keys.fresh;
    found.present_key = keys.present;
    found.past_value = values.past;
    found.value = values.fresh;
    found.present_value = values.present;
    found.kv_heads = keys.heads > 0 ? keys.heads : heads_of(keys.present, found.kv_heads);
    found.narrow_window(keys.window);
  }
  static bool divides(const KvCacheUse& keys, const KvCacheUse& values,
                      const CachedAttention& found) {
    const int64_t repeated = found.heads / std::max<int64_t>(found.kv_heads * keys.groups, 1);
    return keys.groups == values.groups && keys.heads == values.heads && repeated > 0 &&
           found.heads == found.kv_heads * keys.groups * repeated;
  }
  // In a ring buffer, slot ≠ position. A causal mask by slot covers all written slots until the
  // ring is full, and the whole ring after that: its window. Other masks do not convert.
  bool fits_ring(const Instruction& owner, const KvCacheUse& keys, const KvCacheUse& values,
                 const AttentionBias& bias) {
    const bool all = bias.window == 0 && bias.slopes.empty();
    const bool fits = keys.window == values.window && (keys.window == 0 || all);
    if (!fits) refuse(owner, "it masks a ring-buffer KV cache by slot");
    return fits;
  }

  Found unfused(Instruction& softmax, CacheUse use = CacheUse::appended) {
    const int64_t axis = required_attribute<int64_t>(softmax, "axis");
    if (axis != -1 && axis != softmax.result()->type().rank() - 1) {
      return refuse(softmax, "its axis is not the axis of keys");
    }
    CachedAttention found;
    found.use = use;
    Instruction* scores = scores_before(softmax, found);
    if (scores == nullptr) return std::nullopt;
    Instruction* weighted = matmul_after(softmax);
    if (weighted == nullptr) return refuse(softmax, "no matmul with values reads its result");
    const auto keys = trace_kv_cache(operand(*scores, 1), true, flow_, extents_);
    const auto values = trace_kv_cache(operand(*weighted, 1), false, flow_, extents_);
    const bool grown = use != CacheUse::cross;
    if (!keys || !values || values->scale != 1 || (keys->fresh != nullptr) != grown ||
        (values->fresh != nullptr) != grown) {
      return refuse(keys ? *weighted : *scores,
                    "its second operand is not a KV cache with new tokens");
    }
    if (!checked(softmax, found)) return std::nullopt;
    found.query = in_heads(operand(*scores, 0));
    found.result = weighted->result();
    found.scale *= keys->scale;
    if (found.query->type().rank() != 4)
      return refuse(*scores, "its queries are not split into heads");
    found.heads = heads_of(found.query, 0);
    if (!fits_ring(softmax, *keys, *values, found)) return std::nullopt;
    set_caches(*keys, *values, found);
    // A single key head may serve all query heads without a repeat.
    const int64_t repeated = found.kv_heads * keys->groups;
    if (!divides(*keys, *values, found) || (found.heads != repeated && repeated != 1)) {
      return refuse(*scores, "its heads are not a multiple of the KV cache's");
    }
    return found;
  }

  // Traces the softmax back over masks, scale and softcap to the matmul of queries and keys.
  Instruction* scores_before(const Instruction& softmax, CachedAttention& found) {
    Value* value = operand(softmax, 0);
    double scale = 1;
    while (Instruction* definition = value->definition()) {
      const Op& op = definition->op();
      if (op == ops::matmul) {
        found.scale = found.softcap > 0 ? scale * found.softcap : scale;
        return definition;
      }
      const bool joint = op == ops::reshape && alike(value, operand(*definition, 0));
      if (passes_on(op) || op == ops::cast || joint) {
        value = operand(*definition, 0);
      } else if (const auto by = factor_of(*definition, flow_)) {
        value = by->first;
        scale *= by->second;
      } else if (op == ops::tanh && found.softcap == 0 && scale > 0) {
        value = operand(*definition, 0);
        found.softcap = scale;
        scale = 1;
      } else if (op == ops::add && found.softcap == 0) {
        const size_t scores = scores_of(*definition);
        if (!biases_.join(operand(*definition, 1 - scores), scale, found)) {
          refuse(*definition, "it adds neither a causal mask nor ALiBi to the scores");
          return nullptr;
        }
        value = operand(*definition, scores);
      } else if (op == ops::where && found.softcap == 0) {
        value = biases_.unmasked(*definition, scale, found);
        if (value == nullptr) {
          refuse(*definition, "its condition is not a causal mask");
          return nullptr;
        }
      } else {
        refuse(*definition, "it is an unknown op between scores and softmax");
        return nullptr;
      }
    }
    refuse(softmax, "no matmul computes its scores");
    return nullptr;
  }

  // Index of the scores in a sum: the operand that a matmul produces, not positions.
  size_t scores_of(const Instruction& sum) const {
    for (const size_t i : {0, 1}) {
      std::set<const Value*> seen = {nullptr};
      if (from_matmul(operand(sum, i), seen, kMostSteps)) return i;
    }
    return 0;
  }
  bool from_matmul(const Value* value, std::set<const Value*>& seen, int steps) const {
    if (steps == 0 || !seen.insert(value).second || flow_.find(value) != nullptr) return false;
    const Op* op = op_of(value);
    if (op == nullptr || op == &ops::shape || op == &ops::size) return false;
    return op == &ops::matmul ||
           std::ranges::any_of(value->definition()->operands(),
                               [&](auto* from) { return from_matmul(from, seen, steps - 1); });
  }

  // Undoes the reshape that removed a batch of one from heads.
  static Value* in_heads(Value* query) {
    Value* before = op_of(query) == &ops::reshape ? query->definition()->operands()[0] : query;
    return query->type().rank() == 3 && before->type().rank() == 4 && alike(query, before) ? before
                                                                                           : query;
  }

  static Instruction* matmul_after(const Instruction& softmax) {
    const Value* value = softmax.result();
    for (;;) {
      const Use* next = nullptr;
      for (const Use& use : value->uses()) {
        if (use.user == nullptr) return nullptr;
        if (is_any_of(use.user->op(), {&ops::shape, &ops::is_nan})) continue;
        if (next != nullptr) return nullptr;
        next = &use;
      }
      if (next == nullptr) return nullptr;
      const Op& op = next->user->op();
      if (op == ops::matmul) return next->index == 0 ? next->user : nullptr;
      if (op == ops::reshape && next->index == 0 && alike(value, next->user->result())) {
        value = next->user->result();
        continue;
      }
      if (!keeps_weights(op) || (op == ops::where && !is_guard(*next->user, value))) return nullptr;
      value = next->user->result();
    }
  }

  // where(is_nan(w), c, w) guards queries without keys; here every query has its own key.
  static bool is_guard(const Instruction& where, const Value* weights) {
    const Instruction* test = where.operands()[0]->definition();
    return where.operands()[2] == weights && test != nullptr && test->op() == ops::is_nan &&
           test->operands()[0] == weights;
  }

  const AffineAnalysis& flow_;
  const TokenExtents& extents_;
  const AttentionBiases biases_;
  NotAttention& not_it_;
};

}  // namespace

std::string describe(const Instruction& instruction, std::string_view why) {
  std::string text = fmt::format("{} '%{}'", instruction.op().name, instruction.result()->name());
  if (!instruction.origins().empty()) {
    text += fmt::format(" (node '{}')", escape(instruction.origins().front().node));
  }
  return fmt::format("{}: {}", text, why);
}

std::vector<CachedAttention> recognise_attention(Instruction& owner, const AffineAnalysis& flow,
                                                 const TokenExtents& extents,
                                                 NotAttention& not_it) {
  return Recognition(flow, extents, not_it).run(owner);
}

std::vector<CachedAttention> recognise_cross_attention(Value* keys, const AffineAnalysis& flow,
                                                       const TokenExtents& extents,
                                                       NotAttention& not_it) {
  return Recognition(flow, extents, not_it).run_across(keys);
}

}  // namespace lathe
