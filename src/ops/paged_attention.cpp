// SPDX-License-Identifier: MIT
// Attention of packed tokens [tokens, heads·size] to paged KV caches [blocks, block size, key
// heads, size]. Sequence b has tokens [c[b], c[b+1]) and past[b] cached ones; its position p is in
// block table[b, p / block size]. Slots override where new tokens are written; -1 writes none. With
// scales the caches are quantised (kv_cache_scale.h).
#include <algorithm>
#include <cstring>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/gqa.h"
#include "ops/support/kv_cache_scale.h"
#include "ops/support/sdpa.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

enum Operand {
  kQuery,
  kKey,
  kValue,
  kKeyCache,
  kValueCache,
  kCumulative,
  kPast,
  kTable,
  kCos,
  kSin,
  kSlots,
  kSink,
  kKeyScale,
  kValueScale
};

void infer_paged_attention(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
          "num_heads {} is not a multiple of kv_num_heads {}", heads, kv_heads);
  c.check(c.rank(kQuery) == 2 && c.has(kKey) == c.has(kValue) && c.rank(kKeyCache) == 4 &&
              c.rank(kValueCache) == 4 && c.rank(kTable) == 2,
          "query has rank {} and key_cache {}, expected 2 and 4, with key and value or neither",
          c.rank(kQuery), c.rank(kKeyCache));
  const Dim size = Dim::floor_div(c.dim(kQuery, 1), c.has(kKey) ? heads : heads + 2 * kv_heads);
  if (c.has(kKey)) {
    c.require_equal(c.dim(kKey, 0), c.dim(kQuery, 0), "tokens of query and key");
    c.require_equal(c.dim(kKey, 1), size * kv_heads, "columns of key");
    c.require_equal(c.dim(kValue, 1), size * kv_heads, "columns of value");
  }
  const ElementType type = c.element(kKeyCache);
  check_kv_cache_scales(c, kKeyScale, type, kv_heads, size);
  c.check(c.has(kKeyScale) || type == c.element(kQuery),
          "key_cache is {}, expected the query's type, {}", to_string(type),
          to_string(c.element(kQuery)));
  for (const int cache : {kKeyCache, kValueCache}) {
    c.require_equal(c.dim(cache, 2), kv_heads, "heads of the cache");
    c.require_equal(c.dim(cache, 3), stored_size(type, size), "head sizes of query and cache");
  }
  c.result(c.element(kQuery), {c.dim(kQuery, 0), size * heads});
  c.result(c.element(kKeyCache), c.dims(kKeyCache));
  c.result(c.element(kValueCache), c.dims(kValueCache));
}

// Tokens of a sequence, and the blocks of its positions.
struct PagedItem {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t past = 0;
  std::span<const int64_t> blocks;
};

std::vector<PagedItem> paged_items(const Evaluation& c, int64_t rows,
                                   const std::vector<int64_t>& table) {
  const std::vector<int64_t> cumulative = c.values(kCumulative);
  const std::vector<int64_t> past = c.values(kPast);
  const auto width = static_cast<size_t>(c.in(kTable).dims[1]);
  c.check(cumulative.size() == past.size() + 1 && table.size() == past.size() * width &&
              cumulative.front() == 0 && cumulative.back() == rows,
          "{} token bounds, {} past lengths and {} block table rows for {} tokens",
          cumulative.size(), past.size(), c.in(kTable).dims[0], rows);
  const int64_t block_slots = c.in(kKeyCache).dims[1];
  std::vector<PagedItem> items;
  for (size_t b = 0; b < past.size(); ++b) {
    PagedItem item{cumulative[b], cumulative[b + 1] - cumulative[b], past[b],
                   std::span(table).subspan(b * width, width)};
    c.check(item.count >= 0 && item.past >= 0 &&
                item.past + item.count <= static_cast<int64_t>(width) * block_slots,
            "sequence {} has {} new and {} cached tokens, its {} blocks hold {}", b, item.count,
            item.past, width, static_cast<int64_t>(width) * block_slots);
    const int64_t used = (item.past + item.count + block_slots - 1) / block_slots;
    for (const int64_t block : item.blocks.first(static_cast<size_t>(used))) {
      c.check(block >= 0 && block < c.in(kKeyCache).dims[0], "sequence {} refers to block {} of {}",
              b, block, c.in(kKeyCache).dims[0]);
    }
    items.push_back(item);
  }
  return items;
}

// Slots [first, first + count) of a block, as [1, heads, count, size].
TensorView block_slots(const TensorView& cache, int64_t block, int64_t first, int64_t count) {
  TensorView out = cache;
  out.dims = {1, cache.dims[2], count, cache.dims[3]};
  out.strides = {0, cache.strides[2], cache.strides[1], cache.strides[3]};
  out.data = cache.as<std::byte>() +
             (block * cache.strides[0] + first * cache.strides[1]) * (info(cache.type).bits / 8);
  return out;
}

void write_rows(const Evaluation& c, const PagedItem& item, const TensorView& rows,
                const TensorView& cache, const std::vector<int64_t>& slots) {
  const int64_t size = cache.dims[1];
  for (int64_t i = 0; i < item.count; ++i) {
    const int64_t position = item.past + i;
    int64_t slot = item.blocks[static_cast<size_t>(position / size)] * size + position % size;
    if (!slots.empty()) slot = slots[static_cast<size_t>(item.begin + i)];
    if (slot == -1) continue;
    c.check(slot >= 0 && slot < cache.dims[0] * size, "token {} is written to slot {} of {}",
            item.begin + i, slot, cache.dims[0] * size);
    copy_elements(narrow(rows, 2, item.begin + i, 1),
                  block_slots(cache, slot / size, slot % size, 1));
  }
}

// All tokens of a sequence, dequantised.
Tensor gather_tokens(const PagedItem& item, const TensorView& cache, const KvCacheScale& scale) {
  const int64_t length = item.past + item.count;
  Tensor rows(cache.type, {1, cache.dims[2], length, cache.dims[3]});
  for (int64_t at = 0; at < length; at += cache.dims[1]) {
    const int64_t count = std::min(cache.dims[1], length - at);
    const int64_t block = item.blocks[static_cast<size_t>(at / cache.dims[1])];
    copy_elements(block_slots(cache, block, 0, count), narrow(rows.view(), 2, at, count));
  }
  if (!scale) return rows;
  Tensor values(ElementType::f32, {1, cache.dims[2], length, scale.size()});
  scale.dequantize(rows.view(), values.view());
  return values;
}

void evaluate_paged_attention(Evaluation& c) {
  const GqaAttributes attributes(c);
  GqaHeads parts(attributes, c, kQuery, kKey, kValue);
  const int64_t rows = parts.query.dims[2];
  const std::vector<int64_t> table = c.values(kTable);
  const std::vector<PagedItem> items = paged_items(c, rows, table);
  if (c.boolean("do_rotary")) {
    std::vector<int64_t> positions;
    for (const PagedItem& item : items) {
      for (int64_t i = 0; i < item.count; ++i) positions.push_back(item.past + i);
    }
    parts.rotate(attributes, c, kCos, kSin, positions);
  }
  std::vector<int64_t> slots;
  if (c.has(kSlots)) slots = c.values(kSlots);
  c.check(slots.empty() || static_cast<int64_t>(slots.size()) == rows, "got {} slots for {} tokens",
          slots.size(), rows);
  const TensorView keys = c.out(1);
  const TensorView values = c.out(2);
  if (keys.data != c.in(kKeyCache).data) copy_elements(c.in(kKeyCache), keys);
  if (values.data != c.in(kValueCache).data) copy_elements(c.in(kValueCache), values);
  const KvCacheScale key_scale(c, kKeyScale, parts.key.dims[1], parts.key.dims[3]);
  const KvCacheScale value_scale(c, kValueScale, parts.key.dims[1], parts.key.dims[3]);
  std::vector<std::byte> key_codes, value_codes;
  if (key_scale) {
    parts.key = key_scale.quantize(keys.type, parts.key, key_codes);
    parts.value = value_scale.quantize(values.type, parts.value, value_codes);
  }
  for (const PagedItem& item : items) {
    write_rows(c, item, parts.key, keys, slots);
    write_rows(c, item, parts.value, values, slots);
  }
  const TensorView y = split_heads(with_batch(c.out(0)), c.integer("num_heads"));
  for (const PagedItem& item : items) {
    if (item.count == 0) continue;
    const Tensor k = gather_tokens(item, keys, key_scale);
    const Tensor v = gather_tokens(item, values, value_scale);
    Attend attend;
    attend.q = narrow(parts.query, 2, item.begin, item.count);
    attend.k = k.view();
    attend.v = v.view();
    attend.y = narrow(y, 2, item.begin, item.count);
    attend.causal = c.boolean("causal");
    attend.first.assign(1, item.past);
    attend.length.assign(1, item.past + item.count);
    set_gqa_options(attributes, c, kSink, attend);
    attend.run(c.pool);
  }
}

constexpr OperandSpec optional(std::string_view name, TypeSet types, char group = 0) {
  return {.name = name, .types = types, .arity = Arity::optional, .group = group};
}

}  // namespace

static const Register paged_attention{{
    .name = "paged_attention",
    .doc = "Attention of packed tokens to paged KV caches, causal or not.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 optional("key", kFloats, 'T'),
                 optional("value", kFloats, 'T'),
                 {"key_cache", kFloats | kCacheCodes, Arity::one, 'C'},
                 {"value_cache", kFloats | kCacheCodes, Arity::one, 'C'},
                 {"cumulative_sequence_length", kIndices},
                 {"past_seqlens", kIndices},
                 {"block_table", kIndices},
                 optional("cos_cache", kFloats),
                 optional("sin_cache", kFloats),
                 optional("slot_mapping", kIndices),
                 optional("head_sink", kFloats),
                 optional("k_scale", kFloats),
                 optional("v_scale", kFloats)},
    .attributes = gqa_attributes({{"causal", Attribute(true)}}),
    .results = 3,
    .infer = infer_paged_attention,
    .eval = evaluate_paged_attention,
}};

}  // namespace lathe
