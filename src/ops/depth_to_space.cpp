// SPDX-License-Identifier: MIT
// A channel index is (row, column, channel) in mode DCR, and (channel, row, column) in mode CRD.
#include "ir/builder.h"
#include "ops/support/depth_space.h"

namespace lathe {
namespace {

void infer_depth_to_space(Infer& c) {
  const int64_t block = infer_blocks(c);
  const Dim channels = Dim::floor_div(c.dim(0, 1), block * block);
  c.require_equal(channels * (block * block), c.dim(0, 1), "channels as a multiple of the block");
  c.result(c.element(0), {c.dim(0, 0), channels, c.dim(0, 2) * block, c.dim(0, 3) * block});
}

void expand_depth_to_space(Expansion& e) {
  const Dim block = e.integer("block_size");
  const std::vector<Dim>& out = *e.result_type().dims;
  const std::vector<Dim>& in = e.dims(0);
  const bool depth_first = e.text("mode") == "DCR";
  Value* cut = depth_first ? e.b.reshape(e.operand(0), {in[0], block, block, out[1], in[2], in[3]})
                           : e.b.reshape(e.operand(0), {in[0], out[1], block, block, in[2], in[3]});
  const std::vector<int64_t> order =
      depth_first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3};
  e.result(e.b.reshape(e.b.transpose(cut, order), out));
}

}  // namespace

static const Register depth_to_space{{
    .name = "depth_to_space",
    .doc = "Moves channels into blocks of space: [n, c * b * b, h, w] to [n, c, h * b, w * b].",
    .operands = {{"x"}},
    .attributes = {{"block_size", AttributeKind::integer}, {"mode", "DCR"}},
    .infer = infer_depth_to_space,
    .expand = expand_depth_to_space,
}};

}  // namespace lathe
