// SPDX-License-Identifier: MIT
// q is [b, heads, s, h] or [b, s, heads·h], as are k, v and y; past and present are 4-D.
#include "ir/infer.h"
#include "ops/op_call.h"
#include "ops/support/requirements.h"
#include "ops/support/sdpa.h"

namespace lathe {
namespace {

struct Heads {
  Dim count;
  Dim length;
  Dim size;
};

Heads heads_of(Infer& c, int operand, std::string_view attribute) {
  const std::vector<Dim>& dims = c.dims(operand);
  if (dims.size() == 4) return {dims[1], dims[2], dims[3]};
  c.check(dims.size() == 3, "operand {} has rank {}, expected 3 or 4", operand, dims.size());
  const int64_t heads = c.integer(attribute);
  c.check(heads > 0, "{} is {}, expected at least 1 for 3-D operands", attribute, heads);
  if (dims[2].is_constant()) {
    c.check(*dims[2].constant() % heads == 0, "{} columns are not a multiple of {} heads",
            dims[2].to_string(), heads);
  }
  return {heads, dims[1], Dim::floor_div(dims[2], heads)};
}

void infer_attention(Infer& c) {
  c.check(c.rank(1) == c.rank(0) && c.rank(2) == c.rank(0), "q, k, v have ranks {}, {}, {}",
          c.rank(0), c.rank(1), c.rank(2));
  c.check(c.has(4) == c.has(5), "past key {} given, past value {}", c.has(4) ? "is" : "is not",
          c.has(5) ? "is" : "is not");
  const std::string& compute = c.text("compute_type");
  c.check(compute.empty() || compute == "bf16", "compute_type is '{}', expected '' or bf16",
          escape(compute));
  const Heads q = heads_of(c, 0, "q_num_heads");
  const Heads k = heads_of(c, 1, "kv_num_heads");
  const Heads v = heads_of(c, 2, "kv_num_heads");
  const Dim& batch = c.dim(0, 0);
  c.require_equal(batch, c.dim(1, 0), "batch of q and k");
  c.require_equal(batch, c.dim(2, 0), "batch of q and v");
  c.require_equal(q.size, k.size, "head sizes of q and k");
  c.require_equal(k.count, v.count, "heads of k and v");
  c.require_equal(k.length, v.length, "lengths of k and v");
  require_multiple(c, q.count, k.count, "heads of q, a multiple of those of k");
  const Dim past = c.has(4) ? c.dim(4, 2) : Dim(0);
  const Dim keys = past + k.length;
  std::vector<Dim> y = {batch, q.count, q.length, v.size};
  if (c.rank(0) == 3) y = {batch, q.length, q.count * v.size};
  c.result(c.element(0), std::move(y));
  c.result(c.element(1), {batch, k.count, keys, k.size});
  c.result(c.element(2), {batch, v.count, keys, v.size});
  c.result(c.element(0), {batch, q.count, q.length, keys});
}

TensorView as_heads(const TensorView& view, int64_t heads) {
  return view.rank == 4 ? view : split_heads(view, heads);
}

}  // namespace

AttentionAttributes::AttentionAttributes(const InstructionReader& c)
    : scale(c.number("scale")),
      softcap(c.number("softcap")),
      causal(c.boolean("is_causal")),
      left(c.integer("left_window_size")),
      right(c.integer("right_window_size")),
      use_bf16(c.text("compute_type") == "bf16") {
  constexpr std::array kModes = {AttentionScores::raw, AttentionScores::capped,
                                 AttentionScores::biased, AttentionScores::weights};
  const int64_t mode = c.integer("qk_matmul_output_mode");
  c.check(mode >= 0 && mode < 4, "qk_matmul_output_mode is {}, expected 0 to 3", mode);
  kept = kModes[static_cast<size_t>(mode)];
}

Attend prepare_attention(const AttentionAttributes& a, const OpCall& c, bool in_place) {
  Attend attend;
  const int64_t kv_heads = c.out(1).dims[1];
  attend.q = as_heads(c.in(0), c.out(3).dims[1]);
  attend.y = as_heads(c.out(0), c.out(3).dims[1]);
  attend.k = in_place ? as_heads(c.in(1), kv_heads) : c.out(1);
  attend.v = in_place ? as_heads(c.in(2), kv_heads) : c.out(2);
  if (!in_place) {
    append_to_cache(c.has(4) ? &c.in(4) : nullptr, as_heads(c.in(1), kv_heads), c.out(1));
    append_to_cache(c.has(5) ? &c.in(5) : nullptr, as_heads(c.in(2), kv_heads), c.out(2));
  }
  attend.scale = a.scale != 0
                     ? a.scale
                     : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, attend.q.dims[3])));
  attend.softcap = a.softcap;
  if (c.has(3)) attend.bias = broadcast_to_rank4(c.in(3));
  const auto batch = static_cast<size_t>(attend.q.dims[0]);
  attend.first.assign(batch, c.has(4) ? c.in(4).dims[2] : 0);
  attend.length.assign(batch, attend.k.dims[2]);
  if (c.has(6)) {
    attend.length = c.values(6);
    c.check(attend.length.size() == batch, "{} lengths for a batch of {}", attend.length.size(),
            batch);
    for (size_t b = 0; b < batch; ++b) {
      attend.length[b] = std::clamp<int64_t>(attend.length[b], 0, attend.k.dims[2]);
      attend.first[b] = attend.length[b] - attend.q.dims[2];
    }
  }
  attend.causal = a.causal;
  attend.left = a.left;
  attend.right = a.right;
  attend.kept = a.kept;
  attend.scores = c.out(3);
  return attend;
}

namespace {

constexpr TypeSet kMask = kFloats | kBoolean;

}  // namespace

static const Register attention{{
    .name = "attention",
    .doc = "Scaled dot-product attention with GQA, masks, windows and a KV cache.",
    .operands = {{.name = "q", .types = kFloats, .group = 1},
                 {.name = "k", .types = kFloats, .group = 1},
                 {.name = "v", .types = kFloats},
                 {.name = "attn_mask", .types = kMask, .arity = Arity::optional},
                 {.name = "past_key", .types = kFloats, .arity = Arity::optional, .group = 1},
                 {.name = "past_value", .types = kFloats, .arity = Arity::optional},
                 {.name = "nonpad_kv_seqlen", .types = kIndices, .arity = Arity::optional}},
    .attributes = {{"q_num_heads", 0},
                   {"kv_num_heads", 0},
                   {"scale", Attribute(0.0)},
                   {"softcap", Attribute(0.0)},
                   {"is_causal", Attribute(false)},
                   {"left_window_size", -1},
                   {"right_window_size", -1},
                   {"qk_matmul_output_mode", 0},
                   {"softmax_precision", Attribute(ElementType::f32)},
                   {"compute_type", ""}},
    .results = 4,
    .infer = infer_attention,
    .eval =
        [](Evaluation& c) {
          const AttentionAttributes attributes(c);
          Attend attend = prepare_attention(attributes, c);
          if (attributes.use_bf16) attend.round_to_bf16();
          attend.run(c.pool);
        },
}};

}  // namespace lathe
