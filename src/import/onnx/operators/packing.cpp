// SPDX-License-Identifier: MIT
// Imports operators of com.microsoft on packed batches: rows of tokens [tokens, ..] without
// padding. `offsets` [batch, length] has the places of the tokens in the padded batch, then the
// others.
#include <limits>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// Dims [first, last) of x.
Value* dims_of(NodeImport& c, Value* x, int64_t first,
               int64_t last = std::numeric_limits<int64_t>::max()) {
  return c.b("shape", {x}, {{"start", first}, {"end", last}});
}

Value* joined(NodeImport& c, Value* x, Value* y) {
  return c.b("concat", {x, y}, {{"axis", int64_t{0}}});
}

// The first `rows` places.
Value* token_places(NodeImport& c, Value* offsets, Value* rows) {
  Builder& b = c.b;
  Value* places = b.cast(b("reshape", {offsets, b.integers({-1})}), ElementType::i64);
  return b("slice", {places, b.integers({0}), rows, b.integers({0})});
}

// The rows in a padded batch [batch, length, ..], zeros elsewhere.
Value* with_padding(NodeImport& c, Value* x, Value* offsets) {
  Builder& b = c.b;
  Value* places = token_places(c, offsets, dims_of(c, x, 0, 1));
  Value* size = dims_of(c, x, 1);
  Value* count = b("unsqueeze", {b("size", {offsets}), b.integers({0})});
  Value* zeros = b("expand", {b.scalar(x->type().element, 0), joined(c, count, size)});
  Value* all = b("scatter_nd", {zeros, b("unsqueeze", {places, b.integers({1})}), x});
  return b("reshape", {all, joined(c, dims_of(c, offsets, 0), size)});
}

// The rows at these places of a padded batch.
Value* rows_at(NodeImport& c, Value* batch, Value* places) {
  Builder& b = c.b;
  Value* shape = joined(c, b.integers({-1}), dims_of(c, batch, 2));
  return b("gather", {b("reshape", {batch, shape}), places});
}

// The number of tokens of each sequence, from where they begin in the rows [batch + 1].
Value* lengths_of(NodeImport& c, Value* begins) {
  Builder& b = c.b;
  const auto part = [&](int64_t first, int64_t last) {
    return b("slice", {begins, b.integers({first}), b.integers({last}), b.integers({0})});
  };
  return b("sub", {part(1, std::numeric_limits<int64_t>::max()), part(0, -1)});
}

// Attention within each sequence. `operands`: query, key, value and bias (null: absent).
void attend_packed(NodeImport& c, std::vector<Value*> operands, int offsets) {
  Value* rows = dims_of(c, operands[0], 0, 1);
  for (size_t i = 0; i < 3; ++i) {
    if (operands[i] != nullptr) operands[i] = with_padding(c, operands[i], c.in(offsets));
  }
  operands.insert(operands.end(), {lengths_of(c, c.in(offsets + 1)), c.in_or_null(offsets + 2)});
  Instruction* attention = c.b.add("multi_head_attention", operands,
                                   c.record_attributes(get_op("multi_head_attention")));
  c.out(0, rows_at(c, attention->result(0), token_places(c, c.in(offsets), rows)));
}

}  // namespace

// Inputs x [batch, length, ..], token counts [batch].
void import_remove_padding(NodeImport& c) {
  Builder& b = c.b;
  Value* counts = b.cast(c.in(1), ElementType::i64);
  Value* length = b("squeeze", {dims_of(c, c.in(0), 1, 2), b.integers({0})});
  Value* column =
      b("range", {b.scalar(ElementType::i64, 0), length, b.scalar(ElementType::i64, 1)});
  Value* is_token = b("less", {column, b("unsqueeze", {counts, b.integers({1})})});
  is_token = b("reshape", {is_token, b.integers({-1})});
  const auto where = [&](Value* mask) {
    return b("reshape", {b("nonzero", {mask}), b.integers({-1})});
  };
  Value* places = where(is_token);
  Value* offsets = joined(c, places, where(b("not", {is_token})));
  Value* sums = b("cumsum", {counts, b.scalar(ElementType::i64, 0)});
  c.out(0, rows_at(c, c.in(0), places));
  c.out(1, b.cast(b("reshape", {offsets, dims_of(c, c.in(0), 0, 2)}), c.element(1)));
  c.out(2, b.cast(joined(c, b.integers({0}), sums), c.element(1)));
  c.out(3, b("reduce_max", {c.in(1), b.integers({0})}, {{"keep_dims", true}}));
}

// Inputs x [tokens, ..], offsets.
void import_restore_padding(NodeImport& c) { c.out(0, with_padding(c, c.in(0), c.in(1))); }

// Inputs x, weights, bias, offsets, begins, attention bias?.
void import_packed_attention(NodeImport& c) {
  Builder& b = c.b;
  Value* qkv = b("add", {b("matmul", {c.in(0), c.in(1)}), c.in(2)});
  const Integers sizes = c.integers("qkv_hidden_sizes", Integers{});
  c.check(sizes.empty() || sizes.size() == 3, "qkv_hidden_sizes has {} entries, expected 3",
          sizes.size());
  Value* split = sizes.empty() ? nullptr : b.integers(sizes);
  Instruction* parts = b.add("split", {qkv, split}, {{"axis", int64_t{1}}}, {}, 3);
  attend_packed(c, {parts->result(0), parts->result(1), parts->result(2), nullptr}, 3);
}

// Inputs query ([tokens, heads, 3, size] with keys and values beside it), key?, value?, bias?,
// offsets, begins, attention bias?.
void import_packed_multi_head_attention(NodeImport& c) {
  attend_packed(c, {c.in(0), c.in_or_null(1), c.in_or_null(2), c.in_or_null(3)}, 4);
}

}  // namespace lathe::onnx
