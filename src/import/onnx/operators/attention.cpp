// SPDX-License-Identifier: MIT
// Attention of domain com.microsoft.
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

Value* extent(NodeImport& c, Value* x, int64_t axis) {
  return c.b("shape", {x}, {{"start", axis}, {"end", axis + 1}});
}

// A mask of 2·batch numbers holds ends, then starts, of the keys that count: as [batch, keys].
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

// The mask as multi_head_attention takes it.
Value* padding_mask(NodeImport& c, Value* past) {
  if (!c.has(3)) return nullptr;
  Value* mask = c.in(3);
  c.supported(c.rank(3) <= 3, "mask_index has rank {}, expected 1 to 3", c.rank(3));
  if (c.rank(3) != 1) return mask;
  const Dim entries = (*mask->type().dims)[0];
  const Dim batch = (*c.in(0)->type().dims)[0];
  if (equal(entries, batch * 2) != Ternary::yes) return mask;  // lengths, one per batch
  Value* keys = extent(c, c.in(0), 1);
  if (past != nullptr) keys = c.b("add", {keys, extent(c, past, 3)});
  return mask_between(c, mask, keys);
}

}  // namespace

// Inputs x, weights, bias?, mask?, past?, attention bias?: projects x to queries, keys and values.
void import_microsoft_attention(NodeImport& c) {
  Builder& b = c.b;
  c.supported(c.integer("do_rotary", 0) == 0, "do_rotary is {}, expected 0",
              c.integer("do_rotary", 0));
  c.supported(!c.has(6), "input 6 ('past_sequence_length') is given: {} inputs", c.count());
  c.ignore({"past_present_share_buffer", "rotary_embedding_dim"});
  c.check(c.rank(0) == 3, "input 0 has rank {}, expected 3", c.rank(0));
  Value* projected = b("matmul", {c.in(0), c.in(1)});
  if (c.has(2)) projected = b("add", {projected, c.in(2)});
  const Integers sizes = c.integers("qkv_hidden_sizes", Integers{});
  c.check(sizes.empty() || sizes.size() == 3, "qkv_hidden_sizes has {} entries, expected 3",
          sizes.size());
  Value* split = sizes.empty() ? nullptr : b.integers(sizes);
  Instruction* parts = b.add("split", {projected, split}, {{"axis", int64_t{2}}}, {}, 3);
  Value* past = c.in_or_null(4);
  const auto past_part = [&](int64_t i) -> Value* {
    if (past == nullptr) return nullptr;
    return b("gather", {past, b.scalar(ElementType::i64, static_cast<double>(i))});
  };
  Value* mask = padding_mask(c, past);
  Value* past_key = past_part(0);
  Value* past_value = past_part(1);
  Instruction* attention = b.add("multi_head_attention",
                                 {parts->result(0), parts->result(1), parts->result(2), nullptr,
                                  mask, c.in_or_null(5), past_key, past_value},
                                 c.record_attributes(get_op("multi_head_attention")));
  c.out(0, attention->result(0));
  if (!c.wants(1)) return;
  const auto layer = [&](int i) { return b("unsqueeze", {attention->result(i), b.integers({0})}); };
  Value* keys = layer(1);
  c.out(1, b("concat", {keys, layer(2)}, {{"axis", int64_t{0}}}));
}

// Buffers that are longer than what is in them are not taken.
void import_multi_head_attention(NodeImport& c) {
  c.supported(c.count() <= 8, "inputs after the 8th (past_sequence_length …) are given: {} inputs",
              c.count());
  c.plain(c.inputs());
}

// Caches of floats, as long as all rows so far; queries and keys as they come.
void import_group_query_attention(NodeImport& c) {
  const bool plain = c.integer("sliding_window_cache", 0) == 0;
  c.supported(plain || !c.has(10), "sliding_window_cache with an attention_bias: {} inputs",
              c.count());
  c.supported(plain || c.integer("qk_output", 0) == 0,
              "sliding_window_cache with qk_output {}, expected 0", c.integer("qk_output", 0));
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    const std::string_view type = c.text(name, "NONE");
    c.supported(type == "NONE", "{} is '{}', expected NONE", name, escape(type));
  }
  c.supported(c.count() <= 12, "inputs after the 12th (k_scale …) are given: {} inputs", c.count());
  c.ignore({"kv_cache_bit_width", "qk_norm_epsilon"});
  c.plain(c.inputs());
}

// Bounds for devices (attention_metadata, the 17th input) say nothing that the lengths do not.
void import_paged_attention(NodeImport& c) {
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    const std::string_view type = c.text(name, "NONE");
    c.supported(type == "NONE", "{} is '{}', expected NONE", name, escape(type));
  }
  const std::string_view layout = c.text("kv_cache_layout", "DEFAULT");
  c.supported(layout != "LATENT", "kv_cache_layout is '{}', expected keys and values apart",
              escape(layout));
  c.supported(c.integer("rotary_offset", 0) == 0, "rotary_offset is {}, expected 0",
              c.integer("rotary_offset", 0));
  c.supported(c.integer("v_head_size", 0) == 0, "v_head_size is {}, expected that of the keys",
              c.integer("v_head_size", 0));
  for (int i = 12; i < 16; ++i) {
    c.supported(!c.has(i),
                "input {} (q_norm_weight, k_norm_weight, k_scale, v_scale) is given of {}", i,
                c.count());
  }
  c.ignore({"qk_norm_epsilon", "k_cache_dtype", "v_cache_dtype", "kv_cache_layout"});
  std::vector<Value*> inputs = c.inputs();
  if (inputs.size() > 12) inputs.resize(12);
  c.plain(inputs);
}

void import_sparse_attention(NodeImport& c) { c.plain(c.inputs()); }

}  // namespace lathe::onnx
