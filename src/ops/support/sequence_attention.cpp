// SPDX-License-Identifier: MIT
#include "ops/support/sequence_attention.h"

#include <algorithm>

#include "ops/support/gqa.h"
#include "ops/support/indices.h"
#include "ops/support/kv_cache_scale.h"
#include "ops/support/step_tables.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

constexpr OperandSpec optional(std::string_view name, TypeSet types, char group = 0) {
  return {.name = name, .types = types, .arity = Arity::optional, .group = group};
}

constexpr TypeSet kTable = types(ElementType::i32);

}  // namespace

std::vector<OperandSpec> sequence_attention_specs(bool appends) {
  std::vector<OperandSpec> all = {{"query", kFloats, Arity::one, 'T'},
                                  optional("key", kFloats, 'T'),
                                  optional("value", kFloats, 'T'),
                                  {"key_cache", kFloats | kCacheCodes, Arity::one, 'C'},
                                  {"value_cache", kFloats | kCacheCodes, Arity::one, 'C'},
                                  {"token_bounds", kTable},
                                  {appends ? "past_lengths" : "lengths", kTable},
                                  {"page_table", kTable},
                                  optional("cos_cache", kFloats),
                                  optional("sin_cache", kFloats),
                                  optional("position_ids", kIndices),
                                  optional("head_sink", kFloats),
                                  optional("k_scale", kFloats),
                                  optional("v_scale", kFloats)};
  if (!appends) all.erase(all.begin() + 1, all.begin() + 3);
  return all;
}

void infer_sequence_attention(Infer& c, const SequenceAttentionOperands& o) {
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
          "num_heads {} is not a multiple of kv_num_heads {}", heads, kv_heads);
  const bool has_key = o.appends() && c.has(o.key);
  c.check(c.rank(o.query) == 3 && (!o.appends() || has_key == c.has(o.value)),
          "query has rank {}, expected 3, with key and value or neither", c.rank(o.query));
  c.check(c.rank(o.key_cache) == 4 && c.rank(o.value_cache) == 4,
          "key_cache and value_cache have ranks {} and {}, expected [pages, heads, positions, "
          "size]",
          c.rank(o.key_cache), c.rank(o.value_cache));
  const bool packed = o.appends() && !has_key;
  const Dim size = Dim::floor_div(c.dim(o.query, 2), packed ? heads + 2 * kv_heads : heads);
  if (has_key) {
    c.require_equal(c.dim(o.key, 1), c.dim(o.query, 1), "tokens of query and key");
    c.require_equal(c.dim(o.key, 2), size * kv_heads, "columns of key");
    c.require_equal(c.dim(o.value, 2), size * kv_heads, "columns of value");
  }
  const ElementType cache = c.element(o.key_cache);
  check_kv_cache_scales(c, o.key_scale, cache, kv_heads, size);
  c.check(cache == c.element(o.query) || c.has(o.key_scale),
          "a cache of {} does not support queries of {}", to_string(cache),
          to_string(c.element(o.query)));
  for (const int at : {o.key_cache, o.value_cache}) {
    c.require_equal(c.dim(at, 1), kv_heads, "heads of the cache");
    c.require_equal(c.dim(at, 3), stored_size(cache, size), "head sizes of query and cache");
  }
  c.require_equal(c.dim(o.key_cache, 2), c.dim(o.value_cache, 2), "positions of a page");
  check_step_tables(c, o.bounds, o.past, o.table);
  c.result(c.element(o.query), {c.dim(o.query, 0), c.dim(o.query, 1), size * heads});
  if (!o.appends()) return;
  c.result(c.type(o.key_cache));
  c.result(c.type(o.value_cache));
}

namespace {

// Positions of the caches that an item reads: [begin, end).
struct Held {
  int64_t begin = 0;
  int64_t end = 0;
};

Held held_by(const StepItem& item, bool causal, int64_t window) {
  if (!causal) return {0, item.past};
  return {window > 0 ? std::max<int64_t>(item.past - (window - 1), 0) : 0, item.past + item.count};
}

// The positions of one sequence, dense, dequantised.
class HeldRows {
 public:
  TensorView gather(const PagedCache& cache, size_t sequence, const Held& held,
                    const KvCacheScale& scale) {
    const TensorView& all = cache.view();
    const std::array<int64_t, 4> dims = {1, all.dims[1], held.end - held.begin, all.dims[3]};
    // Rounds up to pages, so that the buffer grows as seldom as the cache.
    const int64_t room = (dims[2] + cache.length() - 1) / cache.length() * cache.length();
    const auto bytes = static_cast<size_t>(bytes_for(all.type, dims[1] * room * dims[3]));
    if (memory_.size() < bytes) memory_.resize(bytes);
    const TensorView rows = dense_view(all.type, dims, memory_.data());
    cache.read(sequence, held.begin, rows);
    return scale ? scale.dequantize(rows, f32_) : rows;
  }

 private:
  std::vector<std::byte> memory_;
  std::vector<std::byte> f32_;
};

}  // namespace

void evaluate_sequence_attention(Evaluation& c, const SequenceAttentionOperands& o) {
  const GqaAttributes attributes(c);
  const bool causal = o.appends() || c.boolean("causal");
  GqaHeads parts = o.appends() ? GqaHeads(attributes, c, o.query, o.key, o.value)
                               : GqaHeads(attributes, c, o.query);
  const int64_t tokens = parts.query.dims[2];
  c.check(parts.query.dims[0] == 1, "packed tokens have a batch of {}, expected 1",
          parts.query.dims[0]);
  // Reused by later launches.
  thread_local std::vector<StepItem> items;
  thread_local std::vector<int64_t> positions;
  thread_local std::vector<std::byte> rotated, codes;
  thread_local HeldRows key_rows, value_rows;
  read_items(c, c.in(o.bounds), c.in(o.past), tokens, items);
  if (o.appends()) {
    continue_version(c.in(o.key_cache), c.out(1));
    continue_version(c.in(o.value_cache), c.out(2));
  }
  const PagedCache keys(o.appends() ? c.out(1) : c.in(o.key_cache), c.in(o.table));
  const PagedCache values(o.appends() ? c.out(2) : c.in(o.value_cache), c.in(o.table));
  if (attributes.do_rotary) {
    positions.clear();
    if (c.has(o.positions)) {
      positions.resize(static_cast<size_t>(c.in(o.positions).count()));
      load_values(c, o.positions, 0, positions);
    }
    for (const StepItem& item : items) {
      for (int64_t i = 0; i < item.count && !c.has(o.positions); ++i) {
        positions.push_back(item.past + i);
      }
    }
    parts.rotate(attributes, c, o.cos, o.sin, positions, rotated);
  }
  const KvCacheScale key_scale(c, o.key_scale, attributes.kv_heads, parts.query.dims[3]);
  const KvCacheScale value_scale(c, o.value_scale, attributes.kv_heads, parts.query.dims[3]);
  const auto append = [&](const PagedCache& cache, size_t i, const TensorView& rows,
                          const KvCacheScale& scale) {
    cache.write(i, items[i].past, scale ? scale.quantize(cache.view().type, rows, codes) : rows);
  };
  const TensorView y = split_heads(c.out(), attributes.heads);
  const Numbers& slopes = c.numbers("slopes");
  c.check(slopes.empty() || std::ssize(slopes) == attributes.heads, "got {} slopes for {} heads",
          slopes.size(), attributes.heads);
  Attend attend;
  for (size_t i = 0; i < items.size(); ++i) {
    const StepItem& item = items[i];
    if (item.count == 0) continue;
    const auto own = [&](const TensorView& all) { return narrow(all, 2, item.begin, item.count); };
    const Held held = held_by(item, causal, attributes.window);
    keys.check(c, i, held.begin, held.end);
    if (o.appends()) {
      append(keys, i, own(parts.key), key_scale);
      append(values, i, own(parts.value), value_scale);
    }
    attend.q = own(parts.query);
    attend.k = key_rows.gather(keys, i, held, key_scale);
    attend.v = value_rows.gather(values, i, held, value_scale);
    attend.y = own(y);
    attend.causal = causal;
    attend.first.assign(1, causal ? item.past - held.begin : 0);
    attend.length.assign(1, attend.k.dims[2]);
    attend.sinks.resize(0);
    attend.slopes.assign(slopes);
    set_gqa_options(attributes, c, o.sink, attend);
    attend.run(c.pool);
  }
}

}  // namespace lathe
