// SPDX-License-Identifier: MIT
#include "ops/support/depth_space.h"

namespace lathe {

int64_t infer_blocks(Infer& c) {
  const int64_t block = c.integer("block_size");
  c.check(c.rank(0) == 4, "x has rank {}, expected 4", c.rank(0));
  c.check(block > 0 && block < (1 << 20), "block_size is {}, expected 1 to 2^20 - 1", block);
  const std::string& mode = c.text("mode");
  c.check(mode == "DCR" || mode == "CRD", "mode is '{}', expected DCR or CRD", escape(mode));
  return block;
}

}  // namespace lathe
