// SPDX-License-Identifier: MIT
#include "ops/support/gqa.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/support/dense_operand.h"
#include "ops/support/rope.h"
#include "ops/support/views.h"

namespace lathe {

std::vector<AttributeSpec> gqa_attributes(std::vector<AttributeSpec> extra) {
  std::vector<AttributeSpec> all = {{"num_heads", AttributeKind::integer},
                                    {"kv_num_heads", AttributeKind::integer},
                                    {"scale", Attribute(0.0)},
                                    {"softcap", Attribute(0.0)},
                                    {"do_rotary", Attribute(false)},
                                    {"rotary_interleaved", Attribute(false)},
                                    {"local_window_size", -1},
                                    {"smooth_softmax", Attribute(false)}};
  std::ranges::move(extra, std::back_inserter(all));
  return all;
}

GqaAttributes::GqaAttributes(const InstructionReader& c)
    : heads(c.integer("num_heads")),
      kv_heads(c.integer("kv_num_heads")),
      scale(c.number("scale")),
      softcap(c.number("softcap")),
      do_rotary(c.boolean("do_rotary")),
      interleaved(c.boolean("rotary_interleaved")),
      window(c.integer("local_window_size")),
      smooth_softmax(c.boolean("smooth_softmax")) {}

GqaHeads::GqaHeads(const GqaAttributes& a, const OpCall& c, int query_operand, int key_operand,
                   int value_operand) {
  const int64_t heads = a.heads, kv_heads = a.kv_heads;
  const bool packed = !c.has(key_operand);
  const TensorView all =
      split_heads(with_batch(c.in(query_operand)), packed ? heads + 2 * kv_heads : heads);
  query = slice_heads(all, 0, heads);
  key = packed ? slice_heads(all, heads, kv_heads)
               : split_heads(with_batch(c.in(key_operand)), kv_heads);
  value = packed ? slice_heads(all, heads + kv_heads, kv_heads)
                 : split_heads(with_batch(c.in(value_operand)), kv_heads);
}

GqaHeads::GqaHeads(const GqaAttributes& a, const OpCall& c, int query_operand)
    : query(split_heads(with_batch(c.in(query_operand)), a.heads)) {}

TensorView with_batch(TensorView view) {
  if (view.rank != 2) return view;
  view.rank = 3;
  view.dims = {1, view.dims[0], view.dims[1]};
  view.strides = {0, view.strides[0], view.strides[1]};
  return view;
}

void GqaHeads::rotate(const GqaAttributes& a, const OpCall& c, int cos, int sin,
                      std::span<const int64_t> positions) {
  rotated_query_ = ScratchTensor(query.type, query.extents());
  if (key_count() > 0) rotated_key_ = ScratchTensor(key.type, key.extents());
  rotate_into(a, c, cos, sin, positions, rotated_query_.view(), rotated_key_.view());
}

void GqaHeads::rotate(const GqaAttributes& a, const OpCall& c, int cos, int sin,
                      std::span<const int64_t> positions, std::vector<std::byte>& memory) {
  const auto size = static_cast<size_t>(bytes_for(query.type, query.count()));
  memory.resize(size + static_cast<size_t>(bytes_for(query.type, key_count())));
  rotate_into(a, c, cos, sin, positions, dense_view(query.type, query.extents(), memory.data()),
              key_count() == 0 ? key : dense_view(key.type, key.extents(), memory.data() + size));
}

void GqaHeads::rotate_into(const GqaAttributes& a, const OpCall& c, int cos, int sin,
                           std::span<const int64_t> positions, const TensorView& to_query,
                           const TensorView& to_key) {
  c.check(c.has(cos) && c.has(sin), "do_rotary requires cos_cache and sin_cache, got {} operands",
          c.count());
  c.check(static_cast<int64_t>(positions.size()) == query.dims[0] * query.dims[2],
          "got {} positions, expected {}", positions.size(), query.dims[0] * query.dims[2]);
  const RotaryEmbedding rotation(c.in(cos), c.in(sin), a.interleaved);
  rotation.run(query, to_query, positions, c.pool());
  query = to_query;
  if (key_count() == 0) return;
  rotation.run(key, to_key, positions, c.pool());
  key = to_key;
}

void set_gqa_options(const GqaAttributes& a, const OpCall& c, int sink_operand, Attend& attend) {
  const double scale = a.scale;
  attend.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(attend.q.dims[3]));
  attend.softcap = a.softcap;
  attend.left = a.window > 0 ? a.window - 1 : -1;
  const int64_t heads = a.heads;
  if (sink_operand >= 0 && c.has(sink_operand)) {
    const DenseOperand sinks(c.in(sink_operand), ElementType::f32);
    c.check(sinks.count() == heads, "got {} head sinks for {} heads", sinks.count(), heads);
    attend.sinks.resize(static_cast<size_t>(heads));
    std::copy_n(sinks.as<float>(), heads, attend.sinks.begin());
  } else if (a.smooth_softmax) {
    attend.sinks.assign(static_cast<size_t>(heads), 0.0);
  }
}

}  // namespace lathe
