// SPDX-License-Identifier: MIT
// Attention of packed tokens of several sequences, [1, tokens, …]. Each token's keys and values are
// appended to its sequence's KV caches. The token attends to the entries up to itself. Without keys
// the op reads caches that another instruction appends to ("shared"), or a state that was written
// once ("cross"). `slopes`, one per head, subtract slope times the distance of key and query from a
// score (ALiBi, arXiv:2108.12409). Quantised caches (kv_cache_scale.h) have scales and a type.
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/sequence_step.h"
#include "ops/support/gqa.h"
#include "ops/support/indices.h"
#include "ops/support/kv_cache_scale.h"
#include "ops/support/views.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

enum Operand { kQuery, kKey, kValue, kCos, kSin, kPositions, kSink, kKeyScale, kValueScale };

void infer_sequence_attention(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
          "num_heads {} is not a multiple of kv_num_heads {}", heads, kv_heads);
  c.check(c.rank(kQuery) == 3 && c.has(kKey) == c.has(kValue),
          "query has rank {}, expected 3, with key and value or neither", c.rank(kQuery));
  const CacheRole role = cache_role(c.text("cache"));
  const bool appends = role == CacheRole::appended;
  c.check(appends || !c.has(kKey), "keys are not supported for a {} cache", c.text("cache"));
  c.check(role != CacheRole::cross || !c.boolean("do_rotary"),
          "do_rotary is not supported for a {} cache", c.text("cache"));
  const bool packed = appends && !c.has(kKey);
  const Dim size = Dim::floor_div(c.dim(kQuery, 2), packed ? heads + 2 * kv_heads : heads);
  if (c.has(kKey)) {
    c.require_equal(c.dim(kKey, 1), c.dim(kQuery, 1), "tokens of query and key");
    c.require_equal(c.dim(kKey, 2), size * kv_heads, "columns of key");
    c.require_equal(c.dim(kValue, 2), size * kv_heads, "columns of value");
  }
  const ElementType cache =
      c.has_attribute("cache_type") ? c.element_type("cache_type") : c.element(kQuery);
  check_kv_cache_scales(c, kKeyScale, cache, kv_heads, size);
  c.check(cache == c.element(kQuery) || (role != CacheRole::cross && c.has(kKeyScale)),
          "a {} cache of {} does not support queries of {}", c.text("cache"), to_string(cache),
          to_string(c.element(kQuery)));
  c.result(c.element(kQuery), {c.dim(kQuery, 0), c.dim(kQuery, 1), size * heads});
}

void evaluate_sequence_attention(Evaluation& c) {
  const CacheRole role = cache_role(c.text("cache"));
  const bool appends = role == CacheRole::appended;
  const GqaAttributes attributes(c);
  GqaHeads parts =
      appends ? GqaHeads(attributes, c, kQuery, kKey, kValue) : GqaHeads(attributes, c, kQuery);
  const int64_t rows = parts.query.dims[2];
  c.check(parts.query.dims[0] == 1, "packed tokens have a batch of {}, expected 1",
          parts.query.dims[0]);
  SequenceStep& step = step_of(c, rows);
  // Reused by later launches.
  thread_local std::vector<int64_t> positions;
  thread_local std::vector<std::byte> rotated, code_memory;
  thread_local std::vector<std::byte> key_memory, value_memory, key_f32, value_f32;
  Attend attend;
  if (c.boolean("do_rotary")) {
    positions.clear();
    if (c.has(kPositions)) {
      positions.resize(static_cast<size_t>(c.in(kPositions).count()));
      load_values(c, kPositions, 0, positions);
    }
    for (const StepItem& item : step.items()) {
      for (int64_t i = 0; i < item.count && !c.has(kPositions); ++i) {
        positions.push_back(item.past + i);
      }
    }
    parts.rotate(attributes, c, kCos, kSin, positions, rotated);
  }
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  const KvCacheScale key_scale(c, kKeyScale, kv_heads, parts.query.dims[3]);
  const KvCacheScale value_scale(c, kValueScale, kv_heads, parts.query.dims[3]);
  const auto append = [&](std::string_view state, size_t i, const TensorView& rows,
                          const KvCacheScale& scale) {
    if (!scale) return step.append(state, i, rows);
    step.append(state, i, scale.quantize(c.element_type("cache_type"), rows, code_memory));
  };
  const auto dequantised = [](const TensorView& rows, const KvCacheScale& scale,
                              std::vector<std::byte>& memory) {
    return scale ? scale.dequantize(rows, memory) : rows;
  };
  const TensorView y = split_heads(c.out(), heads);
  const Numbers& slopes = c.numbers("slopes");
  c.check(slopes.empty() || std::ssize(slopes) == heads, "got {} slopes for {} heads",
          slopes.size(), heads);
  for (size_t i = 0; i < step.items().size(); ++i) {
    const StepItem& item = step.items()[i];
    if (item.count == 0) continue;
    const auto own = [&](const TensorView& all) { return narrow(all, 2, item.begin, item.count); };
    if (appends) {
      append(c.text("key_state"), i, own(parts.key), key_scale);
      append(c.text("value_state"), i, own(parts.value), value_scale);
    }
    const CacheRows keys = step.rows(c.text("key_state"), i, key_memory);
    const CacheRows values = step.rows(c.text("value_state"), i, value_memory);
    attend.q = own(parts.query);
    attend.k = dequantised(keys.rows, key_scale, key_f32);
    attend.v = dequantised(values.rows, value_scale, value_f32);
    attend.y = own(y);
    attend.causal = role != CacheRole::cross;
    attend.first.assign(1, item.past - keys.first);
    attend.length.assign(1, attend.k.dims[2]);
    attend.sinks.resize(0);
    attend.slopes.assign(slopes);
    set_gqa_options(attributes, c, kSink, attend);
    attend.run(c.pool);
  }
}

constexpr OperandSpec optional(std::string_view name, TypeSet types, char group = 0) {
  return {.name = name, .types = types, .arity = Arity::optional, .group = group};
}

}  // namespace

static const Register sequence_attention{{
    .name = "sequence_attention",
    .doc = "Attention of packed tokens to the KV caches of their sequences; causal if those grow.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 optional("key", kFloats, 'T'),
                 optional("value", kFloats, 'T'),
                 optional("cos_cache", kFloats),
                 optional("sin_cache", kFloats),
                 optional("position_ids", kIndices),
                 optional("head_sink", kFloats),
                 optional("k_scale", kFloats),
                 optional("v_scale", kFloats)},
    .attributes = gqa_attributes({{"key_state", AttributeKind::text},
                                  {"value_state", AttributeKind::text},
                                  {"slopes", Numbers{}},
                                  {"cache", "appended"},
                                  {"cache_type", AttributeKind::element_type, false}}),
    .traits = kImpure,
    .infer = infer_sequence_attention,
    .eval = evaluate_sequence_attention,
    .tokens = [](const TokenStep& s) { return sequence_tokens(s, 1); },
}};

}  // namespace lathe
