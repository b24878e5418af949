// SPDX-License-Identifier: MIT
// Causal attention to a KV cache of fixed capacity that is block-sparse. Head h uses layout h mod
// layouts; its row (position / block size) lists the blocks of keys, in compressed sparse rows.
// Sequence b has lengths[b] keys, new tokens included.
#include <algorithm>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/gqa.h"
#include "ops/support/kv_cache.h"
#include "ops/support/sdpa.h"

namespace lathe {
namespace {

enum Operand {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kRowStarts,
  kColumns,
  kTotal,
  kLengths,
  kCos,
  kSin
};

void infer_sparse_attention(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  const int64_t block = c.integer("sparse_block_size");
  c.check(
      heads > 0 && kv_heads > 0 && heads % kv_heads == 0 && block > 0,
      "num_heads {} is not a multiple of kv_num_heads {}, or sparse_block_size {} is not positive",
      heads, kv_heads, block);
  c.check(c.rank(kQuery) == 3 && c.has(kKey) == c.has(kValue) && c.rank(kPastKey) == 4 &&
              c.rank(kPastValue) == 4 && c.rank(kRowStarts) == 2 && c.rank(kColumns) == 2,
          "query has rank {} and past_key {}, expected 3 and 4, with key and value or neither",
          c.rank(kQuery), c.rank(kPastKey));
  const Dim size = Dim::floor_div(c.dim(kQuery, 2), c.has(kKey) ? heads : heads + 2 * kv_heads);
  if (c.has(kKey)) {
    c.require_equal(c.dim(kKey, 1), c.dim(kQuery, 1), "lengths of query and key");
    c.require_equal(c.dim(kKey, 2), size * kv_heads, "columns of key");
    c.require_equal(c.dim(kValue, 2), size * kv_heads, "columns of value");
  }
  for (const int past : {kPastKey, kPastValue}) {
    c.require_equal(c.dim(past, 1), kv_heads, "heads of the past");
    c.require_equal(c.dim(past, 3), size, "head sizes of query and past");
  }
  c.result(c.element(kQuery), {c.dim(kQuery, 0), c.dim(kQuery, 1), size * heads});
  c.result(c.element(kPastKey), c.dims(kPastKey));
  c.result(c.element(kPastValue), c.dims(kPastValue));
}

// Keys [batch, layouts, queries, keys] that the block layout allows.
class Layouts {
 public:
  explicit Layouts(const Evaluation& c)
      : starts_(c.values(kRowStarts)),
        columns_(c.values(kColumns)),
        count_(c.in(kRowStarts).dims[0]),
        rows_(c.in(kRowStarts).dims[1] - 1),
        most_(c.in(kColumns).dims[1]),
        block_(c.integer("sparse_block_size")) {
    c.check(count_ > 0 && rows_ > 0 && c.in(kColumns).dims[0] == count_ &&
                c.integer("num_heads") % count_ == 0,
            "got {} layouts of {} rows with columns for {}, for {} heads", count_, rows_,
            c.in(kColumns).dims[0], c.integer("num_heads"));
    for (int64_t layout = 0; layout < count_; ++layout) {
      for (int64_t row = 0; row < rows_; ++row) {
        c.check(0 <= start(layout, row) && start(layout, row) <= start(layout, row + 1) &&
                    start(layout, row + 1) <= most_,
                "row {} of layout {} has columns {} to {} of {}", row, layout, start(layout, row),
                start(layout, row + 1), most_);
      }
    }
  }

  int64_t count() const { return count_; }
  int64_t positions() const { return rows_ * block_; }
  // Marks the keys below `length` that a query at `position` attends to.
  void mark(int64_t layout, int64_t position, int64_t length, bool* keys) const {
    const int64_t row = position / block_;
    for (int64_t i = start(layout, row); i < start(layout, row + 1); ++i) {
      const int64_t first = columns_[static_cast<size_t>(layout * most_ + i)] * block_;
      if (first < 0) continue;
      for (int64_t key = first; key < std::min(first + block_, length); ++key) keys[key] = true;
    }
  }

 private:
  int64_t start(int64_t layout, int64_t row) const {
    return starts_[static_cast<size_t>(layout * (rows_ + 1) + row)];
  }
  std::vector<int64_t> starts_;
  std::vector<int64_t> columns_;
  int64_t count_;
  int64_t rows_;
  int64_t most_;
  int64_t block_;
};

void evaluate_sparse_attention(Evaluation& c) {
  const int64_t heads = c.integer("num_heads");
  const GqaAttributes attributes(c);
  GqaHeads parts(attributes, c, kQuery, kKey, kValue);
  const int64_t batch = parts.query.dims[0];
  const int64_t rows = parts.query.dims[2];
  const int64_t capacity = c.in(kPastKey).dims[2];
  const std::vector<int64_t> lengths = c.values(kLengths);
  const std::vector<int64_t> total = c.values(kTotal);
  const Layouts layouts(c);
  c.check(static_cast<int64_t>(lengths.size()) == batch && total.size() == 1 &&
              total[0] <= std::min(capacity, layouts.positions()),
          "got {} lengths and a total of {} for a batch of {}, capacity {} and layouts of {}",
          lengths.size(), total.empty() ? 0 : total[0], batch, capacity, layouts.positions());
  Attend attend;
  // A first prompt may be padded on the right: its tokens start at position 0.
  for (const int64_t length : lengths) {
    const int64_t first = total[0] == rows ? 0 : length - rows;
    c.check(first >= 0 && length >= 0 && length <= total[0],
            "got {} keys with {} new ones, total {}", length, rows, total[0]);
    attend.first.push_back(first);
    attend.length.push_back(length);
  }
  if (c.boolean("do_rotary")) {
    std::vector<int64_t> positions;
    for (int64_t at = 0; at < batch * rows; ++at) {
      positions.push_back(attend.first[static_cast<size_t>(at / rows)] + at % rows);
    }
    parts.rotate(attributes, c, kCos, kSin, positions);
  }
  attend.q = parts.query;
  attend.k = c.out(1);
  attend.v = c.out(2);
  update_cache(&c.in(kPastKey), parts.key, attend.k, attend.first);
  update_cache(&c.in(kPastValue), parts.value, attend.v, attend.first);
  Tensor seen(ElementType::boolean, {batch, heads, rows, capacity});
  auto* keys = seen.as<bool>();
  for (int64_t i = 0; i < batch * heads * rows; ++i, keys += capacity) {
    const auto b = static_cast<size_t>(i / (heads * rows));
    layouts.mark(i / rows % heads % layouts.count(), attend.first[b] + i % rows, attend.length[b],
                 keys);
  }
  attend.bias = seen.view();
  attend.y = split_heads(c.out(0), heads);
  attend.causal = true;
  set_gqa_options(attributes, c, -1, attend);
  attend.run(c.pool);
}

constexpr OperandSpec optional(std::string_view name, TypeSet types, char group = 0) {
  return {.name = name, .types = types, .arity = Arity::optional, .group = group};
}

}  // namespace

static const Register sparse_attention{{
    .name = "sparse_attention",
    .doc = "Causal block-sparse attention to a KV cache.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 optional("key", kFloats, 'T'),
                 optional("value", kFloats, 'T'),
                 {"past_key", kFloats, Arity::one, 'T'},
                 {"past_value", kFloats, Arity::one, 'T'},
                 {"block_row_indices", kIndices},
                 {"block_col_indices", kIndices},
                 {"total_sequence_length", kIndices},
                 {"key_total_sequence_lengths", kIndices},
                 optional("cos_cache", kFloats),
                 optional("sin_cache", kFloats)},
    .attributes = gqa_attributes({{"sparse_block_size", AttributeKind::integer}}),
    .results = 3,
    .infer = infer_sparse_attention,
    .eval = evaluate_sparse_attention,
}};

}  // namespace lathe
