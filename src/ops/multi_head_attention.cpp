// SPDX-License-Identifier: MIT
// query [b, s, heads·size], key and value [b, l, heads·size]; or key [b, l, heads, 2, size] with
// the values in it; or query [b, s, heads, 3, size] with both; or key and value [b, heads, l,
// size].
#include "ir/infer.h"
#include "ops/attend.h"
#include "ops/evaluation.h"
#include "ops/product.h"
#include "ops/quantization.h"

namespace lathe {
namespace {

enum Operand { kQuery, kKey, kValue, kBias, kMask, kAddend, kPastKey, kPastValue };

// One of the packed parts of [b, s, heads, parts, size], as [b, heads, s, size].
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

void infer_mha(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  c.check(heads > 0, "num_heads is {}, expected at least 1", heads);
  c.check(c.has(kPastKey) == c.has(kPastValue) && (c.has(kKey) || c.rank(kQuery) == 5),
          "query has rank {}; expected a key, or both in it, and both pasts or neither",
          c.rank(kQuery));
  const Part q = part_of(c, kQuery);
  const Part k = c.has(kKey) ? part_of(c, kKey) : q;
  const Part v = c.has(kValue) ? part_of(c, kValue) : k;
  c.require_equal(q.size, k.size, "head sizes of query and key");
  c.require_equal(k.length, v.length, "lengths of key and value");
  const Dim& batch = c.dim(kQuery, 0);
  const Dim keys = k.length + (c.has(kPastKey) ? c.dim(kPastKey, 2) : Dim(0));
  c.result(c.element(kQuery), {batch, q.length, v.size * heads});
  c.result(c.element(kQuery), {batch, heads, keys, k.size});
  c.result(c.element(kQuery), {batch, heads, keys, v.size});
  c.result(c.element(kQuery), {batch, heads, q.length, keys});
}

// The operand's heads plus their share of the bias (from element `first` on), in f32.
Tensor with_bias(const Evaluation& c, const TensorView& heads, int64_t first) {
  Tensor out(ElementType::f32, {heads.dims[0], heads.dims[1], heads.dims[2], heads.dims[3]});
  const std::vector<float> bias =
      c.has(kBias) && first >= 0 ? float_values(c.in(kBias)) : std::vector<float>{};
  const int64_t size = heads.dims[3];
  c.check(bias.empty() || static_cast<int64_t>(bias.size()) >= first + heads.dims[1] * size,
          "bias has {} elements, too few", bias.size());
  float* to = out.as<float>();
  for_each_index(heads.extents().first(3), [&](std::span<const int64_t> index) {
    const std::array<int64_t, 4> at = {index[0], index[1], index[2], 0};
    load_run({heads.type, heads.data, 0, 0, 0}, offset_of(heads, at), heads.strides[3], size, to);
    for (int64_t i = 0; i < size && !bias.empty(); ++i) {
      to[i] += bias[static_cast<size_t>(first + index[1] * size + i)];
    }
    to += size;
  });
  return out;
}

// What is added to the scores for the mask: [b, 1, 1|s, keys]. A mask holds lengths [b], or zeros
// at masked keys: [b, keys] or [b, s, keys].
Tensor mask_addend(const Evaluation& c, int64_t batch, int64_t rows, int64_t keys) {
  const TensorView& mask = c.in(kMask);
  const std::vector<int64_t> values = c.values(kMask);
  const bool lengths = mask.rank == 1;
  const int64_t own = mask.rank == 3 ? rows : 1;
  const auto expected = lengths ? batch : batch * own * keys;
  c.check(static_cast<int64_t>(values.size()) == expected,
          "the mask has {} elements, expected {} for a batch of {} and {} keys", values.size(),
          expected, batch, keys);
  Tensor out(ElementType::f32, {batch, 1, own, keys});
  const auto filter = static_cast<float>(c.number("mask_filter_value"));
  for (int64_t i = 0; i < out.count(); ++i) {
    const bool allowed = lengths ? i % keys < values[static_cast<size_t>(i / keys)]
                                 : values[static_cast<size_t>(i)] != 0;
    out.as<float>()[i] = allowed ? 0 : filter;
  }
  return out;
}

// Both addends broadcast together.
Tensor sum(const TensorView& a, const TensorView& b) {
  Dims dims;
  for (size_t axis = 0; axis < 4; ++axis) dims.push_back(std::max(a.dims[axis], b.dims[axis]));
  Tensor out(ElementType::f32, dims);
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

TensorView heads_of(const Evaluation& c, int operand, int64_t part) {
  const TensorView& view = c.in(operand);
  if (view.rank == 5) return packed_part(view, part);
  return view.rank == 4 ? view : split_heads(view, c.integer("num_heads"));
}

}  // namespace

Attend prepare_multi_head_attention(Evaluation& c, std::vector<Tensor>& keep) {
  const bool packed = !c.has(kKey);
  const TensorView q = heads_of(c, kQuery, 0);
  const TensorView k = packed ? heads_of(c, kQuery, 1) : heads_of(c, kKey, 0);
  const TensorView v = packed           ? heads_of(c, kQuery, 2)
                       : !c.has(kValue) ? heads_of(c, kKey, 1)
                                        : heads_of(c, kValue, 0);
  // Keys that come as heads are projected already: they get no bias.
  const bool projected = c.has(kKey) && c.in(kKey).rank == 4;
  const int64_t width = q.dims[1] * q.dims[3];
  const Tensor query = with_bias(c, q, 0);
  const Tensor key = with_bias(c, k, projected ? -1 : width);
  const Tensor value = with_bias(c, v, projected ? -1 : 2 * width);
  const auto cache = [&](int past, const Tensor& added, const TensorView& present) {
    Tensor rounded(present.type, added.dims());
    store_block<float>({present.type, rounded.data(), 0, 0, 1}, {0, 1, 0, added.count()},
                       added.as<float>(), 0);
    append_to_cache(c.has(past) ? &c.in(past) : nullptr, rounded.view(), present);
  };
  cache(kPastKey, key, c.out(1));
  cache(kPastValue, value, c.out(2));
  Attend attend;
  attend.q = query.view();
  attend.k = c.out(1);
  attend.v = c.out(2);
  attend.y = split_heads(c.out(0), c.integer("num_heads"));
  const int64_t keys = attend.k.dims[2];
  const double scale = c.number("scale");
  attend.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(q.dims[3]));
  attend.causal = c.boolean("unidirectional");
  attend.first.assign(static_cast<size_t>(q.dims[0]), keys - q.dims[2]);
  attend.length.assign(static_cast<size_t>(q.dims[0]), keys);
  Tensor addend;
  if (c.has(kMask)) {
    addend = mask_addend(c, q.dims[0], q.dims[2], keys);
    attend.bias = broadcast_to_rank4(addend.view());
  }
  if (c.has(kAddend)) {
    const TensorView given = broadcast_to_rank4(c.in(kAddend));
    if (attend.bias) addend = sum(*attend.bias, given);
    attend.bias = attend.bias ? broadcast_to_rank4(addend.view()) : given;
  }
  attend.kept = AttentionScores::biased;
  attend.scores = c.out(3);
  keep = {query, key, value, addend};
  return attend;
}

static const Register multi_head_attention{{
    .name = "multi_head_attention",
    .doc = "Attention over projected queries, keys and values, with biases, masks and a cache.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 {"key", kFloats, Arity::optional, 'T'},
                 {"value", kFloats, Arity::optional, 'T'},
                 {"bias", kFloats, Arity::optional, 'T'},
                 {"key_padding_mask", kIndices, Arity::optional},
                 {"attention_bias", kFloats, Arity::optional, 'T'},
                 {"past_key", kFloats, Arity::optional, 'T'},
                 {"past_value", kFloats, Arity::optional, 'T'}},
    .attributes = {{"num_heads", AttributeKind::integer},
                   {"scale", Attribute(0.0)},
                   {"mask_filter_value", Attribute(-10000.0)},
                   {"unidirectional", Attribute(false)}},
    .results = 4,
    .infer = infer_mha,
    .eval =
        [](Evaluation& c) {
          std::vector<Tensor> keep;
          prepare_multi_head_attention(c, keep).run(c.pool);
        },
}};

}  // namespace lathe
