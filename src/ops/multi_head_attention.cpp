// SPDX-License-Identifier: MIT
// query is [b, s, heads·size] with key and value [b, l, heads·size] or [b, heads, l, size]; or key
// is [b, l, heads, 2, size] with the values in it; or query is [b, s, heads, 3, size] with both.
// With past_sequence_length the pasts have spare capacity, and new tokens are written there. With
// cache_indirection [batches, beams, n], entry k of a beam's past is read from the beam that it
// names.
#include <algorithm>

#include "ir/infer.h"
#include "ops/op_call.h"
#include "ops/support/blocked_gemm.h"
#include "ops/support/dense_operand.h"
#include "ops/support/indices.h"
#include "ops/support/sdpa.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

enum Operand {
  kQuery,
  kKey,
  kValue,
  kBias,
  kMask,
  kAddend,
  kPastKey,
  kPastValue,
  kPastLength,
  kIndirection
};

// One packed part of [b, s, heads, parts, size], as [b, heads, s, size].
TensorView packed_part(const TensorView& view, int64_t part) {
  TensorView out = view;
  out.rank = 4;
  out.dims = {view.dims[0], view.dims[2], view.dims[1], view.dims[4]};
  out.strides = {view.strides[0], view.strides[2], view.strides[1], view.strides[4]};
  out.data = view.as<std::byte>() + part * view.strides[3] * (info(view.type).bits / 8);
  return out;
}

struct Part {
  Dim length;
  Dim size;
};

Part part_of(Infer& c, int operand) {
  const int64_t heads = c.integer("num_heads");
  switch (c.rank(operand)) {
    case 3:
      c.require_equal(Dim::mod(c.dim(operand, 2), heads), 0, "columns as a multiple of num_heads");
      return {c.dim(operand, 1), Dim::floor_div(c.dim(operand, 2), heads)};
    case 4:
      c.require_equal(c.dim(operand, 1), heads, "heads");
      return {c.dim(operand, 2), c.dim(operand, 3)};
    case 5:
      c.require_equal(c.dim(operand, 2), heads, "heads");
      return {c.dim(operand, 1), c.dim(operand, 4)};
    default:
      c.fail("operand {} has rank {}, expected 3 to 5", operand, c.rank(operand));
  }
}

// Checks a past [b, heads, tokens, size].
void check_past(Infer& c, int operand, const Dim& size) {
  c.check(c.rank(operand) == 4, "operand {} has rank {}, expected 4", operand, c.rank(operand));
  c.require_equal(c.dim(operand, 0), c.dim(kQuery, 0), "batches of query and past");
  c.require_equal(c.dim(operand, 1), c.integer("num_heads"), "heads of past");
  c.require_equal(c.dim(operand, 2), c.dim(kPastKey, 2), "lengths of pasts");
  c.require_equal(c.dim(operand, 3), size, "head sizes of past");
}

void infer_mha(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  c.check(heads > 0, "num_heads is {}, expected at least 1", heads);
  c.check(c.has(kPastKey) == c.has(kPastValue) && (c.has(kKey) || c.rank(kQuery) == 5),
          "query has rank {}; expected a key, or packed keys and values, and both pasts or none",
          c.rank(kQuery));
  const Part q = part_of(c, kQuery);
  const Part k = c.has(kKey) ? part_of(c, kKey) : q;
  const Part v = c.has(kValue) ? part_of(c, kValue) : k;
  c.require_equal(q.size, k.size, "head sizes of query and key");
  c.require_equal(k.length, v.length, "lengths of key and value");
  for (const int operand : {kKey, kValue}) {
    if (!c.has(operand)) continue;
    c.require_equal(c.dim(operand, 0), c.dim(kQuery, 0), "batches of query, key and value");
  }
  if (c.has(kPastKey)) {
    check_past(c, kPastKey, k.size);
    check_past(c, kPastValue, v.size);
  }
  const Dim& batch = c.dim(kQuery, 0);
  Dim keys = k.length + (c.has(kPastKey) ? c.dim(kPastKey, 2) : Dim(0));
  Dim room = keys;
  if (c.has(kPastLength)) {
    c.check(c.has(kPastKey), "past_sequence_length requires a past, got {} operands", c.count());
    const std::vector<Dim>* past = c.elements(kPastLength);
    keys = past != nullptr && past->size() == 1 ? k.length + past->front() : c.found("total", {0});
    room = Dim::max(keys, c.dim(kPastKey, 2));
  }
  if (c.has(kIndirection)) {
    c.check(c.has(kPastLength) && c.rank(kIndirection) == 3,
            "cache_indirection has rank {}, expected 3 and a past_sequence_length",
            c.rank(kIndirection));
    c.require_equal(c.dim(kIndirection, 0) * c.dim(kIndirection, 1), batch,
                    "beams of cache_indirection and rows of query");
  }
  c.result(c.element(kQuery), {batch, q.length, v.size * heads});
  c.result(c.element(kQuery), {batch, heads, room, k.size});
  c.result(c.element(kQuery), {batch, heads, room, v.size});
  c.result(c.element(kQuery), {batch, heads, q.length, keys});
}

// The operand's heads plus their part of the bias (from element `first` on), in f32.
ScratchTensor with_bias(const OpCall& c, const TensorView& heads, int64_t first) {
  ScratchTensor out(ElementType::f32, heads.extents());
  const bool biased = c.has(kBias) && first >= 0;
  const DenseOperand bias = biased ? DenseOperand(c.in(kBias), ElementType::f32) : DenseOperand();
  const int64_t size = heads.dims[3];
  c.check(!biased || bias.count() >= first + heads.dims[1] * size,
          "bias has {} elements, expected one per column", bias.count());
  float* to = out.as<float>();
  for_each_index(heads.extents().first(3), [&](std::span<const int64_t> index) {
    const std::array<int64_t, 4> at = {index[0], index[1], index[2], 0};
    load_run({heads.type, heads.data, 0, 0, 0}, offset_of(heads, at), heads.strides[3], size, to);
    for (int64_t i = 0; i < size && biased; ++i) {
      to[i] += bias.as<float>()[first + index[1] * size + i];
    }
    to += size;
  });
  return out;
}

// The mask as an additive bias [b, 1, 1|s, keys]. It holds lengths [b], or zeros at masked keys:
// [b, keys] or [b, s, keys]. If all keys are masked, adding the same to each score would change
// no weight but round the scores: nothing is added.
ScratchTensor mask_addend(const OpCall& c, double filter_value, int64_t batch, int64_t rows,
                          int64_t keys) {
  const TensorView& mask = c.in(kMask);
  const ScratchList<int64_t> values = c.values(kMask);
  const bool lengths = mask.rank == 1;
  const int64_t own = mask.rank == 3 ? rows : 1;
  const auto expected = lengths ? batch : batch * own * keys;
  c.check(static_cast<int64_t>(values.size()) == expected,
          "the mask has {} elements, expected {} for a batch of {} and {} keys", values.size(),
          expected, batch, keys);
  ScratchTensor out(ElementType::f32, std::array{batch, int64_t{1}, own, keys});
  const auto filter = static_cast<float>(filter_value);
  for (int64_t row = 0; row < batch * own; ++row) {
    bool any = false;
    float* to = out.as<float>() + row * keys;
    for (int64_t i = 0; i < keys; ++i) {
      const bool allowed = lengths ? i < values[static_cast<size_t>(row)]
                                   : values[static_cast<size_t>(row * keys + i)] != 0;
      to[i] = allowed ? 0 : filter;
      any |= allowed;
    }
    if (!any) std::fill_n(to, keys, 0.0F);
  }
  return out;
}

// Sum of both biases, broadcast.
ScratchTensor sum(const TensorView& a, const TensorView& b) {
  std::array<int64_t, 4> dims;
  for (size_t axis = 0; axis < 4; ++axis) dims[axis] = std::max(a.dims[axis], b.dims[axis]);
  ScratchTensor out(ElementType::f32, dims);
  float* to = out.as<float>();
  for_each_index(dims, [&](std::span<const int64_t> index) {
    float x = 0;
    float y = 0;
    load_run({a.type, a.data, 0, 0, 0}, offset_of(a, index), 1, 1, &x);
    load_run({b.type, b.data, 0, 0, 0}, offset_of(b, index), 1, 1, &y);
    *to++ = x + y;
  });
  return out;
}

TensorView heads_of(const OpCall& c, int operand, int64_t part, int64_t heads) {
  const TensorView& view = c.in(operand);
  if (view.rank == 5) return packed_part(view, part);
  return view.rank == 4 ? view : split_heads(view, heads);
}

// Writes the new tokens behind `past` tokens of the cache; returns the valid part.
TensorView append_in_place(const OpCall& c, int past_operand, int result, const TensorView& added,
                           int64_t past) {
  const TensorView& before = c.in(past_operand);
  const int64_t keys = past + added.dims[2];
  c.check(past >= 0 && past <= before.dims[2],
          "past_sequence_length is {}, the past has a capacity of {}", past, before.dims[2]);
  const std::array<int64_t, 4> extents = {added.dims[0], added.dims[1],
                                          std::max(before.dims[2], keys), added.dims[3]};
  const TensorView present = c.out(result, extents);
  if (before.data != present.data) {
    copy_elements(before, narrow(present, 2, 0, before.dims[2]));
  }
  copy_elements(added, narrow(present, 2, past, added.dims[2]));
  return narrow(present, 2, 0, keys);
}

// Gathers the past of each beam along its cache_indirection.
ScratchTensor gather_beams(const OpCall& c, const TensorView& cache, int64_t past) {
  const TensorView& map = c.in(kIndirection);
  const ScratchList<int64_t> beam_of = c.values(kIndirection);
  const int64_t beams = map.dims[1];
  c.check(map.dims[2] >= past, "cache_indirection has {} positions, the past has {}", map.dims[2],
          past);
  ScratchTensor all(cache.type, cache.extents());
  copy_elements(cache, all.view());
  for (int64_t b = 0; b < cache.dims[0]; ++b) {
    for (int64_t at = 0; at < past; ++at) {
      const int64_t beam = beam_of[static_cast<size_t>(b * map.dims[2] + at)];
      c.check(beam >= 0 && beam < beams, "position {} of beam {} refers to beam {} of {}", at,
              b % beams, beam, beams);
      copy_elements(narrow(narrow(cache, 0, b / beams * beams + beam, 1), 2, at, 1),
                    narrow(narrow(all.view(), 0, b, 1), 2, at, 1));
    }
  }
  return all;
}

}  // namespace

MultiHeadAttributes::MultiHeadAttributes(const InstructionReader& c)
    : heads(c.integer("num_heads")),
      scale(c.number("scale")),
      filter(c.number("mask_filter_value")),
      causal(c.boolean("unidirectional")) {}

Attend prepare_multi_head_attention(const MultiHeadAttributes& a, const OpCall& c) {
  const bool packed = !c.has(kKey);
  const TensorView q = heads_of(c, kQuery, 0, a.heads);
  const TensorView k = packed ? heads_of(c, kQuery, 1, a.heads) : heads_of(c, kKey, 0, a.heads);
  const TensorView v = packed           ? heads_of(c, kQuery, 2, a.heads)
                       : !c.has(kValue) ? heads_of(c, kKey, 1, a.heads)
                                        : heads_of(c, kValue, 0, a.heads);
  // Keys in heads are already projected: they have no bias.
  const bool projected = c.has(kKey) && c.in(kKey).rank == 4;
  const int64_t width = q.dims[1] * q.dims[3];
  ScratchTensor query = with_bias(c, q, 0);
  const ScratchTensor key = with_bias(c, k, projected ? -1 : width);
  const ScratchTensor value = with_bias(c, v, projected ? -1 : 2 * width);
  const int64_t past = c.has(kPastLength) ? single_value(c.origin(), c.views(), kPastLength) : 0;
  const auto cache = [&](int operand, int result, const ScratchTensor& added) -> TensorView {
    const ScratchTensor rounded(c.in(kQuery).type, added.view().extents());
    store_block<float>({rounded.view().type, rounded.view().data, 0, 0, 1},
                       {0, 1, 0, added.count()}, added.as<float>(), 0);
    if (c.has(kPastLength)) return append_in_place(c, operand, result, rounded.view(), past);
    append_to_cache(c.has(operand) ? &c.in(operand) : nullptr, rounded.view(), c.out(result));
    return c.out(result);
  };
  Attend attend;
  attend.q = query.view();
  attend.k = cache(kPastKey, 1, key);
  attend.v = cache(kPastValue, 2, value);
  if (c.has(kIndirection)) {
    attend.k_memory = gather_beams(c, attend.k, past);
    attend.v_memory = gather_beams(c, attend.v, past);
    attend.k = attend.k_memory.view();
    attend.v = attend.v_memory.view();
  }
  attend.y = split_heads(c.out(0), a.heads);
  const int64_t keys = attend.k.dims[2];
  attend.scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(q.dims[3]));
  attend.causal = a.causal;
  attend.first.assign(static_cast<size_t>(q.dims[0]), keys - q.dims[2]);
  attend.length.assign(static_cast<size_t>(q.dims[0]), keys);
  ScratchTensor addend;
  if (c.has(kMask)) {
    addend = mask_addend(c, a.filter, q.dims[0], q.dims[2], keys);
    attend.bias = broadcast_to_rank4(addend.view());
  }
  if (c.has(kAddend)) {
    const TensorView given = broadcast_to_rank4(c.in(kAddend));
    if (attend.bias) addend = sum(*attend.bias, given);
    attend.bias = attend.bias ? broadcast_to_rank4(addend.view()) : given;
  }
  attend.kept = AttentionScores::biased;
  const std::array<int64_t, 4> scores = {q.dims[0], q.dims[1], q.dims[2], keys};
  attend.scores = c.has(kPastLength) ? c.out(3, scores) : c.out(3);
  attend.memory[0] = std::move(query);
  attend.memory[1] = std::move(addend);
  return attend;
}

static const Register multi_head_attention{{
    .name = "multi_head_attention",
    .doc = "Attention over projected queries, keys and values, with biases, masks and a KV cache.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 {"key", kFloats, Arity::optional, 'T'},
                 {"value", kFloats, Arity::optional, 'T'},
                 {"bias", kFloats, Arity::optional, 'T'},
                 {"key_padding_mask", kIndices, Arity::optional},
                 {"attention_bias", kFloats, Arity::optional, 'T'},
                 {"past_key", kFloats, Arity::optional, 'T'},
                 {"past_value", kFloats, Arity::optional, 'T'},
                 {"past_sequence_length", kIndices, Arity::optional},
                 {"cache_indirection", kIndices, Arity::optional}},
    .attributes = {{"num_heads", AttributeKind::integer},
                   {"scale", Attribute(0.0)},
                   {"mask_filter_value", Attribute(-10000.0)},
                   {"unidirectional", Attribute(false)}},
    .results = 4,
    .infer = infer_mha,
    .eval =
        [](Evaluation& c) { prepare_multi_head_attention(MultiHeadAttributes(c), c).run(c.pool); },
}};

}  // namespace lathe
