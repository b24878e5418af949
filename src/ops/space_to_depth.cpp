// SPDX-License-Identifier: MIT
#include "ir/builder.h"

namespace lathe {
namespace {

void infer_space_to_depth(Infer& c) {
  const int64_t block = c.integer("block_size");
  c.check(c.rank(0) == 4, "x has rank {}, expected 4", c.rank(0));
  c.check(block > 0 && block < (1 << 20), "block_size is {}", block);
  std::vector<Dim> dims{c.dim(0, 0), c.dim(0, 1) * (block * block)};
  for (const int axis : {2, 3}) {
    dims.push_back(Dim::floor_div(c.dim(0, axis), block));
    c.require_equal(dims.back() * block, c.dim(0, axis), fmt::format("axis {} in blocks", axis));
  }
  c.result(c.element(0), std::move(dims));
}

void expand_space_to_depth(Expansion& e) {
  const Dim block = e.integer("block_size");
  const std::vector<Dim>& out = *e.result_type().dims;
  Value* cut = e.b.reshape(e.operand(0), {out[0], e.dim(0, 1), out[2], block, out[3], block});
  e.result(e.b.reshape(e.b.transpose(cut, {0, 3, 5, 1, 2, 4}), out));
}

}  // namespace

static const Register space_to_depth{{
    .name = "space_to_depth",
    .doc = "Moves squares of space into channels: [n, c, h * b, w * b] to [n, b * b * c, h, w].",
    .operands = {{"x"}},
    .attributes = {{"block_size", AttributeKind::integer}},
    .infer = infer_space_to_depth,
    .expand = expand_space_to_depth,
}};

}  // namespace lathe
