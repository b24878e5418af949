// SPDX-License-Identifier: MIT
// M-RoPE: three positions per token, [3, b, s]. mrope_section has the number of pairs that each
// position rotates, in contiguous or interleaved (T H W T H W …) order.
#include <algorithm>

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/dense_operand.h"
#include "ops/support/indices.h"
#include "ops/support/rope.h"
#include "ops/support/sdpa.h"
#include "ops/support/views.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

void infer_mrotary(Infer& c) {
  const int rank = c.rank(0);
  const int64_t heads = c.integer("num_heads");
  c.check(rank == 4 || (rank == 3 && heads > 0),
          "x has rank {} and num_heads is {}: expected rank 4, or rank 3 and num_heads", rank,
          heads);
  c.check(c.rank(1) == 3 && c.rank(2) == 2 && c.rank(3) == 2,
          "positions, cos and sin have ranks {}, {} and {}, expected 3, 2 and 2", c.rank(1),
          c.rank(2), c.rank(3));
  c.require_equal(c.dim(1, 0), 3, "rows of positions");
  c.require_equal(c.dim(1, 1), c.dim(0, 0), "batches of positions and x");
  c.require_equal(c.dim(1, 2), c.dim(0, rank == 4 ? 2 : 1), "lengths of positions and x");
  const Integers& section = c.integers("mrope_section");
  c.check(section.size() == 3 && std::ranges::all_of(section, [](int64_t n) { return n >= 0; }),
          "mrope_section has {} elements, expected 3 that are not negative", section.size());
  c.require_equal(c.dim(2, 1), section[0] + section[1] + section[2], "columns of the tables");
  if (rank == 3)
    c.require_equal(Dim::mod(c.dim(0, 2), heads), 0, "columns of x as a multiple of heads");
  c.result(c.element(0), c.dims(0));
}

// Index of the position that rotates pair i.
int64_t stream(const Integers& section, bool interleaved, int64_t i) {
  if (!interleaved) return i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2;
  const auto at = i % 3;
  return at != 0 && i < 3 * section[static_cast<size_t>(at)] ? at : 0;
}

void evaluate_mrotary(Evaluation& c) {
  const bool flat = c.in(0).rank == 3;
  const TensorView x = flat ? split_heads(c.in(0), c.integer("num_heads")) : c.in(0);
  const TensorView y = flat ? split_heads(c.out(), c.integer("num_heads")) : c.out();
  const int64_t rows = x.dims[0] * x.dims[2];
  const ScratchArray<int64_t> given(c.in(1).count());
  load_values(c, 1, 0, given);
  const DenseOperand cos(c.in(2), ElementType::f32);
  const DenseOperand sin(c.in(3), ElementType::f32);
  const int64_t table = cos.extent(0);
  const int64_t half = cos.extent(1);
  c.check(static_cast<int64_t>(given.size()) == 3 * rows && sin.count() == cos.count(),
          "{} positions for {} tokens; cos and sin have {} and {} elements", given.size(), rows,
          cos.count(), sin.count());
  for (const int64_t position : given) {
    c.check(position >= 0 && position < table,
            "position {} is out of range for cos and sin of {} positions", position, table);
  }
  // One table row per token.
  const ScratchArray<float> cosines(rows * half);
  const ScratchArray<float> sines(rows * half);
  const ScratchArray<int64_t> positions(rows);
  for (int64_t row = 0; row < rows; ++row) {
    positions[static_cast<size_t>(row)] = row;
    for (int64_t i = 0; i < half; ++i) {
      const int64_t axis = stream(c.integers("mrope_section"), c.integer("mrope_layout") == 1, i);
      const int64_t from = given[static_cast<size_t>(axis * rows + row)] * half + i;
      cosines.data()[row * half + i] = cos.as<float>()[from];
      sines.data()[row * half + i] = sin.as<float>()[from];
    }
  }
  const std::array<int64_t, 2> dims = {rows, half};
  const TensorView angles[] = {dense_view(ElementType::f32, dims, cosines.data()),
                               dense_view(ElementType::f32, dims, sines.data())};
  RotaryEmbedding(angles[0], angles[1], c.boolean("interleaved")).run(x, y, positions, c.pool);
}

}  // namespace

static const Register mrotary_embedding{{
    .name = "mrotary_embedding",
    .doc = "M-RoPE: rotates pairs of a head's elements by angles of one of three positions.",
    .operands = {{"x", kFloats}, {"positions", kIndices}, {"cos", kFloats}, {"sin", kFloats}},
    .attributes = {{"interleaved", Attribute(false)},
                   {"mrope_layout", 0},
                   {"mrope_section", AttributeKind::integers},
                   {"num_heads", 0},
                   {"rotary_embedding_dim", 0}},
    .infer = infer_mrotary,
    .eval = evaluate_mrotary,
    .tokens = rotary_tokens,
}};

}  // namespace lathe
