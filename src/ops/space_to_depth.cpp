// SPDX-License-Identifier: MIT
// Inverse of depth_to_space, with equal channel orders.
#include "ir/builder.h"
#include "ops/support/depth_space.h"

namespace lathe {
namespace {

void infer_space_to_depth(Infer& c) {
  const int64_t block = infer_blocks(c);
  std::vector<Dim> dims{c.dim(0, 0), c.dim(0, 1) * (block * block)};
  for (const int axis : {2, 3}) {
    dims.push_back(Dim::floor_div(c.dim(0, axis), block));
    c.require_equal(dims.back() * block, c.dim(0, axis), fmt::format("blocks of axis {}", axis));
  }
  c.result(c.element(0), std::move(dims));
}

void expand_space_to_depth(Expansion& e) {
  const Dim block = e.integer("block_size");
  const std::vector<Dim>& out = *e.result_type().dims;
  Value* cut = e.b.reshape(e.operand(0), {out[0], e.dim(0, 1), out[2], block, out[3], block});
  const std::vector<int64_t> order = e.text("mode") == "DCR"
                                         ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                         : std::vector<int64_t>{0, 1, 3, 5, 2, 4};
  e.result(e.b.reshape(e.b.transpose(cut, order), out));
}

}  // namespace

static const Register space_to_depth{{
    .name = "space_to_depth",
    .doc = "Moves blocks of space into channels: [n, c, h * b, w * b] to [n, b * b * c, h, w].",
    .operands = {{"x"}},
    .attributes = {{"block_size", AttributeKind::integer}, {"mode", "DCR"}},
    .infer = infer_space_to_depth,
    .expand = expand_space_to_depth,
}};

}  // namespace lathe
