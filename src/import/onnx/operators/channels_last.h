// SPDX-License-Identifier: MIT
// Operators whose channels follow the spatial axes.
#pragma once

#include "import/onnx/node_import.h"

namespace lathe::onnx {

// Applies `f` to x with its channels before the spatial axes, and moves those of the result back.
template <class F>
Value* with_channels_first(NodeImport& c, Value* x, bool channels_last, F&& f) {
  if (!channels_last) return f(x);
  const int rank = x->type().rank();
  Integers forward{0, rank - 1};
  Integers back{0};
  for (int axis = 1; axis < rank - 1; ++axis) {
    forward.push_back(axis);
    back.push_back(axis + 1);
  }
  back.push_back(1);
  return c.b.transpose(f(c.b.transpose(x, forward)), back);
}

// True if attribute channels_last is set, which needs a spatial axis.
inline bool has_channels_last(NodeImport& c, int64_t fallback = 0) {
  const bool last = c.integer("channels_last", fallback) != 0;
  c.supported(!last || c.rank(0) > 2, "channels_last with rank {} is not supported", c.rank(0));
  return last;
}

}  // namespace lathe::onnx
