// SPDX-License-Identifier: MIT
// Imports attention operators of com.microsoft.
#include <cmath>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

Value* extent(NodeImport& c, Value* x, int64_t axis) {
  return c.b("shape", {x}, {{"start", axis}, {"end", axis + 1}});
}

// Expands a mask of 2·batch numbers (ends, then starts, of the attended keys) to [batch, keys].
Value* mask_between(NodeImport& c, Value* mask, Value* keys) {
  Builder& b = c.b;
  const ElementType type = mask->type().element;
  Value* parts = b("reshape", {mask, b.integers({2, -1, 1})});
  const auto part = [&](int64_t i) {
    return b("gather", {parts, b.scalar(ElementType::i64, static_cast<double>(i))});
  };
  Value* zero = b.scalar(ElementType::i64, 0);
  Value* one = b.scalar(ElementType::i64, 1);
  Value* place = b.cast(b("range", {zero, b("squeeze", {keys, b.integers({0})}), one}), type);
  Value* inside = b("and", {b("less", {place, part(0)}), b("greater_or_equal", {place, part(1)})});
  return b.cast(inside, type);
}

// Inputs of attention with its projection. Null: absent.
struct Projected {
  Value* x;    // [batch, tokens, ..]
  Value* qkv;  // queries, then keys, then values
  Value* mask;
  Value* past;  // keys, then values, [2, batch, heads, tokens, size]
  Value* bias;  // of scores
  Value* past_length;
  Value* cache_indirection;
};

// The number of past tokens, i64 [1]; null without a past. `past_key` [b, heads, tokens, size].
Value* past_tokens(NodeImport& c, const Projected& p, Value* past_key) {
  Builder& b = c.b;
  if (p.past_length != nullptr) {
    return b.cast(b("reshape", {p.past_length, b.integers({1})}), ElementType::i64);
  }
  return past_key == nullptr ? nullptr : extent(c, past_key, 2);
}

// The mask in the form of multi_head_attention.
Value* padding_mask(NodeImport& c, const Projected& p, Value* past) {
  Value* mask = p.mask;
  if (mask == nullptr) return nullptr;
  c.supported(mask->type().is_ranked() && mask->type().rank() <= 3,
              "mask_index is {}, expected rank 1 to 3", mask->type().to_string());
  if (mask->type().rank() != 1) return mask;
  const Dim entries = (*mask->type().dims)[0];
  const Dim batch = (*p.x->type().dims)[0];
  if (equal(entries, batch * 2) != Ternary::yes) return mask;  // lengths, one per batch
  Value* keys = extent(c, p.x, 1);
  if (past != nullptr) keys = c.b("add", {keys, past});
  return mask_between(c, mask, keys);
}

// RoPE tables: cosines and sines [batch, tokens, n / 2] of position · 10000^(-2i / n).
std::array<Value*, 2> rope_tables(NodeImport& c, const Projected& p, Value* past, int64_t n) {
  Builder& b = c.b;
  Value* rows = extent(c, p.x, 1);
  Value* count = b("squeeze", {rows, b.integers({0})});
  Value* positions =
      b("range", {b.scalar(ElementType::i64, 0), count, b.scalar(ElementType::i64, 1)});
  if (past != nullptr) positions = b("add", {positions, past});
  Tensor speeds(ElementType::f32, {1, 1, n / 2});
  for (int64_t i = 0; i < n / 2; ++i) {
    speeds.as<float>()[i] = static_cast<float>(
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(n)));
  }
  Value* column = b("unsqueeze", {b.cast(positions, ElementType::f32), b.integers({0, 2})});
  Value* angles = b("mul", {column, b.literal(speeds)});
  Value* shape =
      b("concat", {extent(c, p.x, 0), rows, b.integers({n / 2})}, {{"axis", int64_t{0}}});
  angles = b("expand", {angles, shape});
  const auto table = [&](std::string_view op) {
    return b.cast(b(op, {angles}), p.qkv->type().element);
  };
  return {table("cos"), table("sin")};
}

// RoPE in GPT-NeoX order: rotates halves of the first rotary_embedding_dim elements of each head.
void rotate_heads(NodeImport& c, const Projected& p, Value* past, Value*& query, Value*& key) {
  const int64_t heads = c.integer("num_heads");
  c.supported(query->type().is_ranked(), "do_rotary with queries of {}", query->type().to_string());
  c.check(heads > 0, "num_heads is {}, expected at least 1", heads);
  const std::optional<int64_t> width = query->type().dims->back().constant();
  const int64_t given = c.integer("rotary_embedding_dim", 0);
  c.supported(given > 0 || width.has_value(), "do_rotary with heads of size {}",
              query->type().dims->back().to_string());
  const int64_t n = given > 0 ? given : *width / heads;
  c.check(given >= 0 && n <= 1 << 20, "rotary_embedding_dim is {} for heads of size {}", given, n);
  const auto [cos, sin] = rope_tables(c, p, past, n);
  for (Value** x : {&query, &key}) {
    *x = c.b("rotary_embedding", {*x, cos, sin},
             {{"num_heads", heads}, {"rotary_embedding_dim", n}});
  }
}

// Splits the projection and attends. With a past length, the KV cache has capacity for the new
// tokens.
void attend_projected(NodeImport& c, const Projected& p) {
  Builder& b = c.b;
  const bool shared = c.integer("past_present_share_buffer", 0) != 0;
  c.check(shared == (p.past_length != nullptr) || p.past == nullptr,
          "past_present_share_buffer is {}, but input past_sequence_length {}", shared,
          p.past_length != nullptr ? "is given" : "is missing");
  c.check(c.rank(0) == 3, "input 0 has rank {}, expected 3", c.rank(0));
  const Integers sizes = c.integers("qkv_hidden_sizes", Integers{});
  c.check(sizes.empty() || sizes.size() == 3, "qkv_hidden_sizes has {} entries, expected 3",
          sizes.size());
  Value* split = sizes.empty() ? nullptr : b.integers(sizes);
  Instruction* parts = b.add("split", {p.qkv, split}, {{"axis", int64_t{2}}}, {}, 3);
  Value* query = parts->result(0);
  Value* key = parts->result(1);
  const auto past_part = [&](int64_t i) -> Value* {
    if (p.past == nullptr) return nullptr;
    return b("gather", {p.past, b.scalar(ElementType::i64, static_cast<double>(i))});
  };
  Value* past_key = past_part(0);
  Value* past_value = past_part(1);
  Value* rows = past_tokens(c, p, past_key);
  if (c.integer("do_rotary", 0) != 0) {
    rotate_heads(c, p, rows, query, key);
  } else {
    c.ignore({"rotary_embedding_dim"});
  }
  Value* mask = padding_mask(c, p, rows);
  std::vector<Value*> operands = {query, key,    parts->result(2), nullptr,
                                  mask,  p.bias, past_key,         past_value};
  if (p.past_length != nullptr && p.past != nullptr) {
    operands.insert(operands.end(), {p.past_length, p.cache_indirection});
  }
  Instruction* attention =
      b.add("multi_head_attention", operands, c.record_attributes(get_op("multi_head_attention")));
  c.out(0, attention->result(0));
  if (!c.is_used(1)) return;
  const auto layer = [&](int i) { return b("unsqueeze", {attention->result(i), b.integers({0})}); };
  Value* keys = layer(1);
  c.out(1, b("concat", {keys, layer(2)}, {{"axis", int64_t{0}}}));
}

// Inputs x, weights, bias?.
Value* project(NodeImport& c) {
  Value* qkv = c.b("matmul", {c.in(0), c.in(1)});
  return c.has(2) ? c.b("add", {qkv, c.in(2)}) : qkv;
}

}  // namespace

// Inputs x, weights, bias?, mask?, past?, attention bias?, past length?.
void import_microsoft_attention(NodeImport& c) {
  attend_projected(c, {c.in(0), project(c), c.in_or_null(3), c.in_or_null(4), c.in_or_null(5),
                       c.in_or_null(6), nullptr});
}

// Inputs of Attention, then beam width? and cache indirection?, which implies the width. The past
// length is always given.
void import_decoder_masked_self_attention(NodeImport& c) {
  const bool shared = c.integer("past_present_share_buffer", 0) != 0;
  attend_projected(c, {c.in(0), project(c), c.in_or_null(3), c.in_or_null(4), c.in_or_null(5),
                       shared ? c.in(6) : nullptr, shared ? c.in_or_null(8) : nullptr});
}

// Inputs x, weights, bias, x scale, weight scale, mask?, x zero point?, weight zero point?, past?.
void import_qattention(NodeImport& c) {
  Builder& b = c.b;
  Value* sums = b("matmul_integer", {c.in(0), c.in(1), c.in_or_null(6), c.in_or_null(7)});
  Value* qkv = b("mul", {b.cast(sums, c.element(2)), b("mul", {c.in(3), c.in(4)})});
  qkv = b("add", {qkv, c.in(2)});
  attend_projected(c, {c.in(0), qkv, c.in_or_null(5), c.in_or_null(8), nullptr, nullptr, nullptr});
}

// Inputs query, key?, value?, mask?, attention bias?, past key?, past value?, past length?, beam
// width?, cache indirection?, bias?. Without keys, the query has keys and values beside it.
void import_decoder_masked_multi_head_attention(NodeImport& c) {
  Builder& b = c.b;
  const bool shared = c.integer("past_present_share_buffer", 0) != 0;
  c.check(!shared || !c.has(5) || c.has(7),
          "past_present_share_buffer is {}, but input past_sequence_length is missing", shared);
  Value* query = c.in(0);
  Value* key = c.in_or_null(1);
  Value* value = c.in_or_null(2);
  if (key == nullptr) {
    Instruction* parts = b.add("split", {query}, {{"axis", int64_t{2}}}, {}, 3);
    query = parts->result(0);
    key = parts->result(1);
    value = parts->result(2);
  }
  c.ignore({"output_qk"});
  std::vector<Value*> operands = {query,           key,
                                  value,           c.in_or_null(10),
                                  c.in_or_null(3), c.in_or_null(4),
                                  c.in_or_null(5), c.in_or_null(6)};
  if (shared && c.has(5)) {
    operands.insert(operands.end(), {c.in(7), c.in_or_null(9)});
  }
  Instruction* attention =
      b.add("multi_head_attention", operands, c.record_attributes(get_op("multi_head_attention")));
  for (int i = 0; i < 4; ++i) c.out(i, attention->result(i));
}

namespace {

// Normalises each head of [.., heads · size] by its root mean square.
Value* normalize_heads(NodeImport& c, Value* x, int64_t heads, Value* weight, int64_t size) {
  Builder& b = c.b;
  const double epsilon = c.number("qk_norm_epsilon", 1e-6);
  const Integers leading(static_cast<size_t>(x->type().rank() - 1), 0);
  Integers apart = leading, flat = leading;
  apart.insert(apart.end(), {heads, size});
  flat.push_back(heads * size);
  Value* rows = b("simplified_layer_normalization", {b("reshape", {x, b.integers(apart)}), weight},
                  {{"epsilon", epsilon}});
  return b("reshape", {rows, b.integers(flat)});
}

// With weights, the heads of queries and keys are normalised before the operator.
void normalize_queries_and_keys(NodeImport& c, Value* query_weight, Value* key_weight,
                                std::vector<Value*>& inputs) {
  c.check((query_weight == nullptr) == (key_weight == nullptr),
          "q_norm_weight and k_norm_weight: {} is given, expected both",
          query_weight == nullptr ? "the second" : "the first");
  if (query_weight == nullptr) {
    c.ignore({"qk_norm_epsilon"});
    return;
  }
  const Type& weight = query_weight->type();
  const std::optional<int64_t> size =
      weight.is_ranked() && weight.rank() == 1 ? weight.dims->front().constant() : std::nullopt;
  c.supported(size.has_value(), "q_norm_weight is {}, expected a known head size",
              weight.to_string());
  const int64_t heads = c.integer("num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  if (inputs[1] == nullptr) {
    Value* sizes = c.b.integers({heads * *size, kv_heads * *size, kv_heads * *size});
    Instruction* parts = c.b.add("split", {inputs[0], sizes}, {{"axis", int64_t{-1}}}, {}, 3);
    for (int i = 0; i < 3; ++i) inputs[static_cast<size_t>(i)] = parts->result(i);
  }
  inputs[0] = normalize_heads(c, inputs[0], heads, query_weight, *size);
  inputs[1] = normalize_heads(c, inputs[1], kv_heads, key_weight, *size);
}

// Checks that types and scales (inputs `key_scale` and the next) of KV caches fit the attributes.
void check_cache(NodeImport& c, int cache, int key_scale, int64_t bits) {
  const std::array<std::string_view, 2> names = {"k_quant_type", "v_quant_type"};
  bool codes = false;
  for (int i = 0; i < 2; ++i) {
    const std::string_view name = names[static_cast<size_t>(i)];
    const std::string_view type = c.text(name, "NONE");
    const bool none = type == "NONE";
    c.supported(none || type == "PER_TENSOR" || type == "PER_CHANNEL",
                "{} is '{}', expected NONE, PER_TENSOR or PER_CHANNEL", name, escape(type));
    c.check(none != c.has(key_scale + i), "{} is {}, but input {}, its scale, {}", name, type,
            key_scale + i, c.has(key_scale + i) ? "is given" : "is missing");
    codes = codes || !none;
    if (none) continue;
    const Type& scale = c.in(key_scale + i)->type();
    const std::optional<int64_t> count =
        scale.is_ranked() ? element_count(*scale.dims).constant() : std::nullopt;
    c.check(!count || (*count == 1) == (type == "PER_TENSOR") || c.integer("kv_num_heads") == 1,
            "{} is {}, but its scale has {} elements", name, type, count.value_or(0));
  }
  if (!codes) return;
  const ElementType element = c.element(cache);
  const bool fits = element == ElementType::u8 ? bits == 4 : bits == 8 || bits == 0;
  c.supported(fits, "a cache of {} with {} bits, expected i8 or f8e4m3fn with 8, or u8 with 4",
              to_string(element), bits);
}

}  // namespace

// The type of a quantised KV cache determines its bits.
void import_group_query_attention(NodeImport& c) {
  const bool plain = c.integer("sliding_window_cache", 0) == 0;
  c.supported(plain || c.integer("qk_output", 0) == 0,
              "sliding_window_cache with qk_output {}, expected 0", c.integer("qk_output", 0));
  check_cache(c, 3, 12, c.integer("kv_cache_bit_width", 0));
  c.supported(c.count() <= 16, "the node has {} inputs, expected at most 16 (up to k_norm_weight)",
              c.count());
  std::vector<Value*> inputs = c.inputs();
  inputs.resize(std::max<size_t>(inputs.size(), 3));
  normalize_queries_and_keys(c, c.in_or_null(14), c.in_or_null(15), inputs);
  if (inputs.size() > 14) inputs.resize(14);
  c.plain(inputs);
}

// attention_metadata (the 17th input) has bounds for devices and is unused.
void import_paged_attention(NodeImport& c) {
  const std::string_view layout = c.text("kv_cache_layout", "DEFAULT");
  c.supported(layout != "LATENT", "kv_cache_layout is '{}', expected separate keys and values",
              escape(layout));
  c.supported(c.integer("rotary_offset", 0) == 0, "rotary_offset is {}, expected 0",
              c.integer("rotary_offset", 0));
  c.supported(c.integer("v_head_size", 0) == 0, "v_head_size is {}, expected that of the keys",
              c.integer("v_head_size", 0));
  for (const std::string_view name : {"qk_rotation", "v_rotation"}) {
    const std::string_view rotation = c.text(name, "NONE");
    c.supported(rotation == "NONE", "{} is '{}', expected NONE", name, escape(rotation));
  }
  c.supported(c.count() <= 17, "the node has {} inputs, expected at most 17 (no scales per token)",
              c.count());
  int64_t bits = 0;
  for (const std::string_view name : {"k_cache_dtype", "v_cache_dtype"}) {
    const std::string_view type = c.text(name, "");
    c.supported(type != "float4e2m1", "{} is '{}', expected int8, int4 or float8e4m3fn", name,
                escape(type));
    if (type == "int4") bits = 4;
  }
  check_cache(c, 3, 14, bits);
  std::vector<Value*> inputs = c.inputs();
  inputs.resize(16);
  normalize_queries_and_keys(c, c.in_or_null(12), c.in_or_null(13), inputs);
  inputs.erase(inputs.begin() + 12, inputs.begin() + 14);
  while (inputs.back() == nullptr) inputs.pop_back();
  const bool causal = c.integer("is_causal", 1) != 0;
  c.plain(inputs, {{"causal", causal}});
}

}  // namespace lathe::onnx
