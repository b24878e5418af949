// SPDX-License-Identifier: MIT
// Attention over a KV cache [b, key heads, keys, size] with a length per sequence. Query token i of
// sequence b is at position past[b] + i, where past[b] = seqlens_k[b] + 1 - s. In a first prompt (s
// equals total_sequence_length) past[b] is 0; it may be padded on the right. With
// sliding_window_cache the cache holds the last positions only (kv_cache.h). Without new keys,
// queries attend to a past that already holds the new tokens, such as another layer's. With scales
// the cache is quantised (kv_cache_scale.h): all keys and values are read back from it, new ones
// included.
#include <algorithm>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/gqa.h"
#include "ops/support/kv_cache.h"
#include "ops/support/kv_cache_scale.h"
#include "ops/support/sdpa.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

enum Operand {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kSeqlens,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale
};

void infer_gqa(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
          "num_heads {} is not a multiple of kv_num_heads {}", heads, kv_heads);
  c.check(
      c.rank(kQuery) == 3 && c.has(kKey) == c.has(kValue) && c.has(kPastKey) == c.has(kPastValue),
      "query has rank {}, expected 3, with key and value, and both pasts, or neither",
      c.rank(kQuery));
  const bool packed = !c.has(kKey);
  const int64_t parts = packed ? heads + 2 * kv_heads : heads;
  const Dim size = Dim::floor_div(c.dim(kQuery, 2), parts);
  const Dim& batch = c.dim(kQuery, 0);
  const Dim& length = c.dim(kQuery, 1);
  if (!packed) {
    // With a past, the number of new keys may be zero.
    const bool known = c.dim(kKey, 1).is_constant() && !(c.dim(kKey, 1) == Dim(0));
    if (!c.has(kPastKey) || known) {
      c.require_equal(c.dim(kKey, 1), length, "lengths of query and key");
    }
    c.require_equal(c.dim(kKey, 2), size * kv_heads, "columns of key");
    c.require_equal(c.dim(kValue, 2), size * kv_heads, "columns of value");
  }
  const std::vector<Dim>* total = c.elements(kTotal);
  Dim keys = total != nullptr && total->size() == 1 ? total->front() : c.found("total", {0});
  const bool sliding = c.boolean("sliding_window_cache");
  const int64_t window = c.integer("local_window_size");
  c.check(!sliding || (c.has(kPastKey) && window > 0),
          "sliding_window_cache requires a past and a window; local_window_size is {}", window);
  const ElementType cache = c.element(c.has(kPastKey) ? kPastKey : kQuery);
  check_kv_cache_scales(c, kKeyScale, cache, kv_heads, size);
  const bool codes = c.has(kKeyScale);
  c.check(codes || cache == c.element(kQuery), "past_key is {}, expected the query's type, {}",
          to_string(cache), to_string(c.element(kQuery)));
  if (c.has(kPastKey)) {
    c.check(c.rank(kPastKey) == 4, "past_key has rank {}, expected 4", c.rank(kPastKey));
    c.require_equal(c.dim(kPastKey, 1), kv_heads, "heads of past_key");
    c.require_equal(c.dim(kPastKey, 3), stored_size(cache, size),
                    "head sizes of query and past_key");
    // A past of full capacity is also the buffer of the present.
    keys = sliding ? c.dim(kPastKey, 2) : Dim::max(keys, c.dim(kPastKey, 2));
    if (sliding) c.require_less_equal(window, keys, "the window and the capacity of past_key");
  }
  c.result(c.element(kQuery), {batch, length, size * heads});
  c.result(cache, {batch, kv_heads, keys, stored_size(cache, size)});
  c.result(cache, {batch, kv_heads, keys, stored_size(cache, size)});
  const bool scores = c.integer("qk_output") != 0;
  c.result(c.element(kQuery), {batch, heads, length, scores ? keys : Dim(0)});
}

// Cached tokens of each sequence before this run.
ScratchList<int64_t> past_lengths(const GroupQueryAttributes& a, const OpCall& c, int64_t batch,
                                  int64_t rows) {
  const ScratchList<int64_t> seqlens = c.values(kSeqlens), total = c.values(kTotal);
  c.check(static_cast<int64_t>(seqlens.size()) == batch && total.size() == 1,
          "got {} lengths and {} totals for a batch of {}", seqlens.size(), total.size(), batch);
  ScratchList<int64_t> past;
  past.assign(seqlens.size(), 0);
  for (size_t b = 0; b < past.size() && total[0] != rows; ++b) past[b] = seqlens[b] + 1 - rows;
  const int64_t most = c.has(kPastKey) ? c.in(kPastKey).dims[2] : 0;
  const bool sliding = a.sliding;
  for (const int64_t length : past) {
    c.check(
        length >= 0 && (sliding || (length <= most && length + rows <= std::max(total[0], most))),
        "seqlens_k implies {} past keys; the past has {} and the total is {}", length, most,
        total[0]);
  }
  return past;
}

// Checks the dims that bound memory accesses: inference may not have them.
void check_extents(const OpCall& c, const GqaHeads& parts) {
  const auto &query = parts.query.dims, &key = parts.key.dims, &value = parts.value.dims;
  c.check(key[2] == query[2] || (key[2] == 0 && c.has(kPastKey)), "query has {} tokens, key has {}",
          query[2], key[2]);
  c.check(value[2] == key[2], "key has {} tokens, value has {}", key[2], value[2]);
  c.check(key[0] == query[0] && value[0] == query[0],
          "query, key and value have batches of {}, {} and {}", query[0], key[0], value[0]);
  for (const int i : {kPastKey, kPastValue}) {
    if (!c.has(kPastKey)) break;
    const TensorView& past = c.in(i);
    const Dims expected = {query[0], key[1], c.in(kPastKey).dims[2],
                           stored_size(past.type, key[3])};
    c.check(std::ranges::equal(past.extents(), expected), "{} has shape [{}], expected [{}]",
            i == kPastKey ? "past_key" : "past_value", fmt::join(past.extents(), ", "),
            fmt::join(expected, ", "));
  }
}

// Appends the new tokens to the cache and sets the attention's keys and values. Returns the
// position of each sequence's first query.
ScratchList<int64_t> attend_to_cache(const GroupQueryAttributes& a, const OpCall& c, Attend& attend,
                                     const TensorView& key, const TensorView& value) {
  const int64_t total = c.values(kTotal)[0];
  const bool sliding = a.sliding;
  const int64_t capacity = c.has(kPastKey) ? c.in(kPastKey).dims[2] : 0;
  const int64_t keys = sliding ? capacity : std::max(total, capacity);
  const std::array<int64_t, 4> extents = {key.dims[0], key.dims[1], keys, key.dims[3]};
  attend.k = c.out(1, extents);
  attend.v = c.out(2, extents);
  const ScratchList<int64_t> last = c.values(kSeqlens);
  ScratchList<int64_t> origins;
  if (!sliding) {
    for (const int64_t at : last) attend.length.push_back(std::clamp<int64_t>(at + 1, 0, keys));
    // Without new keys, all keys are in the past.
    for (const int64_t length : attend.length) {
      c.check(key.dims[2] > 0 || length <= capacity,
              "seqlens_k implies {} keys; the past has {} and no new ones", length, capacity);
    }
    const ScratchList<int64_t>& held = key.dims[2] == 0 ? attend.length : attend.first;
    update_cache(c.has(kPastKey) ? &c.in(kPastKey) : nullptr, key, attend.k, held);
    update_cache(c.has(kPastValue) ? &c.in(kPastValue) : nullptr, value, attend.v, held);
    origins.assign(last.size(), 0);
    return origins;
  }
  const SlidingCache cache{capacity, a.window};
  c.check(cache.window <= capacity, "a window of {} exceeds the past's capacity of {}",
          cache.window, capacity);
  attend.k_memory = cache.slide(c.in(kPastKey), key, attend.k, attend.first, last);
  attend.v_memory = cache.slide(c.in(kPastValue), value, attend.v, attend.first, last);
  attend.k = attend.k_memory.view();
  attend.v = attend.v_memory.view();
  for (size_t b = 0; b < last.size(); ++b) {
    const int64_t kept = cache.kept(attend.first[b]);
    attend.length.push_back(kept + last[b] + 1 - attend.first[b]);
    origins.push_back(attend.first[b] - kept);
    attend.first[b] = kept;
  }
  return origins;
}

// attend_to_cache() for a quantised cache.
ScratchList<int64_t> attend_to_quantised(const GroupQueryAttributes& a, const OpCall& c,
                                         Attend& attend, const GqaHeads& parts) {
  const ElementType cache = c.in(kPastKey).type;
  const int64_t kv_heads = parts.key.dims[1];
  const int64_t size = parts.key.dims[3];
  const KvCacheScale key_scale(c, kKeyScale, kv_heads, size);
  const KvCacheScale value_scale(c, kValueScale, kv_heads, size);
  const auto quantised = [&](const KvCacheScale& scale, const TensorView& rows) {
    ScratchTensor codes(
        cache, std::array{rows.dims[0], rows.dims[1], rows.dims[2], stored_size(cache, size)});
    scale.quantize(rows, codes.view());
    return codes;
  };
  const ScratchTensor keys = quantised(key_scale, parts.key);
  const ScratchTensor values = quantised(value_scale, parts.value);
  ScratchList<int64_t> origins = attend_to_cache(a, c, attend, keys.view(), values.view());
  const auto dequantised = [](const KvCacheScale& scale, const TensorView& codes) {
    ScratchTensor rows(ElementType::f32,
                       std::array{codes.dims[0], codes.dims[1], codes.dims[2], scale.size()});
    scale.dequantize(codes, rows.view());
    return rows;
  };
  attend.k_memory = dequantised(key_scale, attend.k);
  attend.v_memory = dequantised(value_scale, attend.v);
  attend.k = attend.k_memory.view();
  attend.v = attend.v_memory.view();
  return origins;
}

// Shifts a bias by position to one by key index of the attention.
ScratchTensor bias_by_key(const TensorView& bias, std::span<const int64_t> origins, int64_t rows) {
  const auto batch = std::ssize(origins);
  ScratchTensor moved(bias.type, std::array{batch, bias.dims[1], bias.dims[2], rows});
  moved.clear();
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t first = origins[static_cast<size_t>(b)];
    const int64_t count = std::clamp<int64_t>(bias.dims[3] - first, 0, rows);
    copy_elements(narrow(narrow(bias, 0, std::min(b, bias.dims[0] - 1), 1), 3, first, count),
                  narrow(narrow(moved.view(), 0, b, 1), 3, 0, count));
  }
  return moved;
}

}  // namespace

GroupQueryAttributes::GroupQueryAttributes(const InstructionReader& c)
    : GqaAttributes(c),
      sliding(c.boolean("sliding_window_cache")),
      causal(c.boolean("causal")),
      qk_output(c.integer("qk_output")) {}

Attend prepare_group_query_attention(const GroupQueryAttributes& a, const OpCall& c) {
  const int64_t heads = a.heads;
  GqaHeads parts(a, c, kQuery, kKey, kValue);
  const int64_t batch = parts.query.dims[0];
  const int64_t rows = parts.query.dims[2];
  check_extents(c, parts);
  Attend attend;
  attend.first = past_lengths(a, c, batch, rows);
  if (a.do_rotary) {
    ScratchList<int64_t> positions;
    if (c.has(kPositions)) positions = c.values(kPositions);
    for (int64_t at = 0; !c.has(kPositions) && at < batch * rows; ++at) {
      positions.push_back(attend.first[static_cast<size_t>(at / rows)] + at % rows);
    }
    parts.rotate(a, c, kCos, kSin, positions);
    attend.memory[0] = parts.take_rotated_query();
  }
  const ScratchList<int64_t> origins = c.has(kKeyScale)
                                           ? attend_to_quantised(a, c, attend, parts)
                                           : attend_to_cache(a, c, attend, parts.key, parts.value);
  attend.q = parts.query;
  attend.y = split_heads(c.out(0), heads);
  set_gqa_options(a, c, kSink, attend);
  attend.causal = a.causal;
  if (c.has(kBias)) attend.bias = broadcast_to_rank4(c.in(kBias));
  if (c.has(kBias) && a.sliding) {
    attend.memory[1] = bias_by_key(*attend.bias, origins, attend.k.dims[2]);
    attend.bias = attend.memory[1].view();
  }
  const int64_t mode = a.qk_output;
  const std::array<int64_t, 4> scores = {batch, heads, rows, mode != 0 ? attend.k.dims[2] : 0};
  attend.scores = c.out(3, scores);
  if (mode == 1) attend.kept = AttentionScores::biased;
  if (mode == 2) attend.kept = AttentionScores::weights;
  return attend;
}

namespace {

constexpr OperandSpec optional(std::string_view name, TypeSet types, char group = 0) {
  return {.name = name, .types = types, .arity = Arity::optional, .group = group};
}

}  // namespace

static const Register group_query_attention{{
    .name = "group_query_attention",
    .doc = "Causal GQA with RoPE and a KV cache of one length per sequence.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 optional("key", kFloats, 'T'),
                 optional("value", kFloats, 'T'),
                 optional("past_key", kFloats | kCacheCodes, 'C'),
                 optional("past_value", kFloats | kCacheCodes, 'C'),
                 {"seqlens_k", kIndices},
                 {"total_sequence_length", kIndices},
                 optional("cos_cache", kFloats),
                 optional("sin_cache", kFloats),
                 optional("position_ids", kIndices),
                 optional("attention_bias", kFloats),
                 optional("head_sink", kFloats),
                 optional("k_scale", kFloats),
                 optional("v_scale", kFloats)},
    .attributes = gqa_attributes({{"sliding_window_cache", Attribute(false)},
                                  {"causal", Attribute(true)},
                                  {"qk_output", 0}}),
    .results = 4,
    .infer = infer_gqa,
    .eval =
        [](Evaluation& c) {
          prepare_group_query_attention(GroupQueryAttributes(c), c).run(c.pool);
        },
}};

}  // namespace lathe
