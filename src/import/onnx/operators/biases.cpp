// SPDX-License-Identifier: MIT
// Imports biases of attention scores, and other operators of com.microsoft's transformers.
#include <cmath>

#include "import/onnx/operators/channels_last.h"
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

struct Extents {
  int64_t rows, columns;
};

Extents constant_extents(NodeImport& c, int i) {
  c.check(c.rank(i) == 2, "input {} has rank {}, expected 2", i, c.rank(i));
  const std::vector<Dim>& dims = *c.in(i)->type().dims;
  c.supported(dims[0].is_constant() && dims[1].is_constant(),
              "input {} is {}, its shape must be known here", i, c.in(i)->type().to_string());
  return {*dims[0].constant(), *dims[1].constant()};
}

// 0, 1, … before `length`, as a vector.
Value* positions_before(NodeImport& c, Value* length) {
  Builder& b = c.b;
  Value* count = b.cast(b("squeeze", {b("reshape", {length, b.integers({1})}), b.integers({0})}),
                        ElementType::i64);
  return b("range", {b.scalar(ElementType::i64, 0), count, b.scalar(ElementType::i64, 1)});
}

// Buckets of distances as T5 has them: one per distance up to half of `buckets`, beyond it
// logarithmic up to max_distance.
Value* bucket_of(NodeImport& c, Value* distance, int64_t buckets, int64_t max_distance) {
  Builder& b = c.b;
  const auto integer = [&](int64_t v) {
    return b.scalar(ElementType::i64, static_cast<double>(v));
  };
  const auto number = [&](double v) { return b.scalar(ElementType::f32, v); };
  const int64_t exact = buckets / 2;
  const double ratio = std::log(static_cast<float>(max_distance) / static_cast<float>(exact));
  Value* far = b.cast(b("max", {distance, integer(1)}), ElementType::f32);
  far = b("log", {b("div", {far, number(static_cast<double>(exact))})});
  far = b("mul", {b("div", {far, number(ratio)}), number(static_cast<double>(buckets - exact))});
  far = b("add", {b.cast(far, ElementType::i64), integer(exact)});
  far = b("min", {far, integer(buckets - 1)});
  return b("where", {b("less", {distance, integer(exact)}), distance, far});
}

}  // namespace

// Inputs table, query length, key length. The table's elements are those of [heads, buckets], its
// shape is [buckets, heads].
void import_relative_position_bias(NodeImport& c) {
  Builder& b = c.b;
  const Extents dims = constant_extents(c, 0);
  const bool both = c.integer("is_bidirectional", 0) != 0;
  const int64_t most = c.integer("max_distance");
  const int64_t buckets = both ? dims.rows / 2 : dims.rows;
  c.check(buckets >= 2 && most > buckets / 2,
          "max_distance is {} with {} buckets, expected more than half of them", most, buckets);
  Value* zero = b.scalar(ElementType::i64, 0);
  Value* row = b("unsqueeze", {positions_before(c, c.in(1)), b.integers({1})});
  Value* ahead = b("sub", {positions_before(c, c.in(2)), row});
  Value* behind = both ? b("abs", {ahead}) : b("max", {b("neg", {ahead}), zero});
  Value* bucket = bucket_of(c, behind, buckets, most);
  if (both) {
    Value* half = b.scalar(ElementType::i64, static_cast<double>(buckets));
    bucket = b("add", {bucket, b("where", {b("greater", {ahead, zero}), half, zero})});
  }
  Value* table = b("reshape", {c.in(0), b.integers({dims.columns, dims.rows})});
  Value* bias = b("gather", {table, bucket}, {{"axis", int64_t{1}}});
  c.out(0, b("unsqueeze", {bias, b.integers({0})}));
}

// Inputs query, its bias, relative positions, weight, bias, eco_a.
void import_gated_relative_position_bias(NodeImport& c) {
  Builder& b = c.b;
  c.supported(!c.has(6) && c.rank(0) == 3, "packed tokens (query of rank {}) are not supported",
              c.rank(0));
  const int64_t heads = c.integer("num_heads");
  Value* query = b("add", {c.in(0), c.in(1)});
  query = b.transpose(b("reshape", {query, b.integers({0, 0, heads, -1})}), {0, 2, 1, 3});
  Value* gates = b("add", {b("matmul", {query, c.in(3)}), c.in(4)});
  gates = b("reshape", {gates, b.integers({0, 0, 0, 2, -1})});
  gates = b("sigmoid", {b("reduce_sum", {gates, b.integers({4})}, {{"keep_dims", false}})});
  Instruction* parts = b.add("split", {gates}, {{"axis", int64_t{3}}}, {}, 2);
  const auto number = [&](double v) { return b.scalar(c.element(0), v); };
  Value* gate = b("sub", {b("mul", {parts->result(1), c.in(5)}), number(1)});
  gate = b("add", {b("mul", {parts->result(0), gate}), number(2)});
  c.out(0, b("mul", {gate, c.in(2)}));
}

// softmax(data + bias) over the axes from `axis` on.
void import_bias_softmax(NodeImport& c) {
  static_cast<void>(c.integer("is_inner_broadcast"));  // required; shapes state it
  const int64_t axis = c.integer("axis", 1);
  const int rank = c.rank(0);
  c.check(axis >= -rank && axis < rank, "axis {} is out of range for rank {}", axis, rank);
  Value* x = c.b("add", {c.in(0), c.in(1)});
  c.out(0, normalize_from(c, "softmax", x, axis));
}

// Inputs angles [batch, tokens, size], then q, q rotated by a quarter, k and k rotated,
// [batch, heads, tokens, size].
void import_gemma_rotary_embedding(NodeImport& c) {
  Builder& b = c.b;
  const auto table = [&](std::string_view op) {
    return b("unsqueeze", {b.cast(b(op, {c.in(0)}), c.element(1)), b.integers({1})});
  };
  Value* sin = table("sin");
  Value* cos = table("cos");
  const auto rotated = [&](int i) {
    return b("add", {b("mul", {c.in(i), cos}), b("mul", {c.in(i + 1), sin})});
  };
  c.out(0, rotated(1));
  c.out(1, rotated(3));
}

namespace {

Value* normalize_groups(NodeImport& c, Value* x, bool last) {
  const Attributes attributes = {{"num_groups", c.integer("groups")},
                                 {"epsilon", c.number("epsilon", 1e-5)}};
  const int64_t activation = c.integer("activation");
  c.check(activation == 0 || activation == 1, "activation is {}, expected 0 or 1 (SiLU)",
          activation);
  Value* y = with_channels_first(c, x, last, [&](Value* first) {
    return c.b("group_normalization", {first, c.in(1), c.in(2)}, attributes);
  });
  return activation == 0 ? y : c.b("swish", {y});
}

}  // namespace

// Inputs x, gamma, beta.
void import_group_norm(NodeImport& c) {
  c.out(0, normalize_groups(c, c.in(0), has_channels_last(c, 1)));
}

// Inputs x, gamma, beta, skip [n, (spatial,) channels], bias [channels]?.
void import_skip_group_norm(NodeImport& c) {
  Builder& b = c.b;
  const bool last = has_channels_last(c, 1);
  const int spatial = c.rank(0) - 2;
  Integers axes;
  for (int i = 0; i < spatial; ++i) axes.push_back(last ? i + 1 : i + 2);
  Value* skip = c.in(3);
  if (c.rank(3) == 2) skip = b("unsqueeze", {skip, b.integers(axes)});
  Value* sum = b("add", {c.in(0), skip});
  if (c.has(4)) {
    Integers trailing(static_cast<size_t>(spatial) + 1, 1);
    trailing[last ? trailing.size() - 1 : 0] = -1;
    sum = b("add", {sum, b("reshape", {c.in(4), b.integers(trailing)})});
  }
  c.out(0, normalize_groups(c, sum, last));
  c.out(1, sum);
}

}  // namespace lathe::onnx
