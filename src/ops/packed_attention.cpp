// SPDX-License-Identifier: MIT
// query is [1, tokens, heads·size], key and value alike; `bounds` i32[sequences + 1] has the first
// token of each sequence, and the number of tokens. A token attends to all tokens of its sequence.
#include "ops/support/packed_attention.h"

#include <cmath>

#include "ir/infer.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

enum PackedOperand { kPackedQuery, kPackedKey, kPackedValue, kPackedBounds };

void infer_packed_attention(Infer& c) {
  const int64_t heads = c.integer("num_heads");
  c.check(heads > 0, "num_heads is {}, expected at least 1", heads);
  const std::string& compute = c.text("compute_type");
  c.check(compute.empty() || compute == "bf16", "compute_type is '{}', expected '' or bf16",
          escape(compute));
  for (const int operand : {kPackedQuery, kPackedKey, kPackedValue}) {
    c.check(c.rank(operand) == 3, "operand {} has rank {}, expected 3", operand, c.rank(operand));
    c.require_equal(c.dim(operand, 0), 1, "the first axis and 1");
    c.require_equal(c.dim(operand, 1), c.dim(kPackedQuery, 1), "tokens of query, key and value");
    c.require_equal(Dim::mod(c.dim(operand, 2), heads), 0, "columns as a multiple of num_heads");
  }
  c.require_equal(c.dim(kPackedQuery, 2), c.dim(kPackedKey, 2), "columns of query and key");
  c.check(c.rank(kPackedBounds) == 1, "bounds have rank {}, expected 1", c.rank(kPackedBounds));
  c.result(c.element(kPackedQuery), {1, c.dim(kPackedQuery, 1), c.dim(kPackedValue, 2)});
}

TensorView tokens_of(const TensorView& view, int64_t heads, const StepItem& item) {
  return narrow(split_heads(view, heads), 2, item.begin, item.count);
}

}  // namespace

PackedAttentionAttributes::PackedAttentionAttributes(const InstructionReader& c)
    : heads(c.integer("num_heads")),
      scale(c.number("scale")),
      use_bf16(c.text("compute_type") == "bf16") {}

std::vector<StepItem> packed_sequences(const OpCall& c) {
  std::vector<StepItem> items;
  read_items(c.origin(), c.in(kPackedBounds), {}, c.in(kPackedQuery).dims[1], items);
  return items;
}

Attend prepare_packed_attention(const PackedAttentionAttributes& a, const OpCall& c,
                                const StepItem& item) {
  Attend attend;
  attend.q = tokens_of(c.in(kPackedQuery), a.heads, item);
  attend.k = tokens_of(c.in(kPackedKey), a.heads, item);
  attend.v = tokens_of(c.in(kPackedValue), a.heads, item);
  attend.y = tokens_of(c.out(), a.heads, item);
  const int64_t size = std::max<int64_t>(1, attend.q.dims[3]);
  attend.scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(size));
  attend.first.assign(1, 0);
  attend.length.assign(1, item.count);
  return attend;
}

static const Register packed_attention{{
    .name = "packed_attention",
    .doc = "Attention of packed tokens of several sequences, each to all tokens of its sequence.",
    .operands = {{.name = "query", .types = kFloats, .group = 1},
                 {.name = "key", .types = kFloats, .group = 1},
                 {.name = "value", .types = kFloats, .group = 1},
                 {.name = "bounds", .types = types(ElementType::i32)}},
    .attributes = {{"num_heads", 0}, {"scale", Attribute(0.0)}, {"compute_type", ""}},
    .infer = infer_packed_attention,
    .eval =
        [](Evaluation& c) {
          const PackedAttentionAttributes attributes(c);
          for (const StepItem& item : packed_sequences(c)) {
            Attend attend = prepare_packed_attention(attributes, c, item);
            if (attributes.use_bf16) attend.round_to_bf16();
            attend.run(c.pool);
          }
        },
}};

}  // namespace lathe
